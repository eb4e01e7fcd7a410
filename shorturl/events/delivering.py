"""What `manage.py deliver` does: it sends the events to their receivers, each in a thread.

The requests are signed as https://www.standardwebhooks.com specifies.
"""

import base64
import hashlib
import hmac
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

from django.db import Error, close_old_connections, connection, transaction
from django.db.models import Exists, F, OuterRef

from shorturl.events.subscribing import MOST
from shorturl.models import CLOCK, EXPIRY_UNTOLD, LinkEvent, ShortUrl, Subscription
from shorturl.strategies.delivering import update_skip_locked

logger = logging.getLogger(__name__)

PAUSE = 1  # seconds between two searches for events
POSTPONED_MOST = 3_600  # seconds
EXPIRIES = 1_000  # links of one statement
TIMEOUT = 5  # seconds: of each wait for the receiver
LONGEST = 20  # seconds: of the whole request, names and connecting included; a claim is longer

# A look-up of a name cannot be ended. One that takes too long is left behind in its thread.
_look_ups = ThreadPoolExecutor(MOST, "names")


# A strategy: it has the receiver's next event sent, and returns whether one was due.
Deliver = Callable[[int, Callable[[LinkEvent], object]], bool]


class Deliverer:
    """Delivers to each receiver in a thread, so a slow receiver delays no other.

    `deliver_next` is the function of that name, or one with another strategy.
    """

    def __init__(self, deliver_next: Callable[[Subscription], bool]) -> None:
        self.deliver_next = deliver_next
        self.stopping = threading.Event()
        self.at_work: dict[int, Future[None]] = {}

    def run(self) -> None:
        """Deliver until `stopping` is set, and end after the requests under way."""
        with ThreadPoolExecutor(MOST) as pool:
            while not self.stopping.is_set():
                try:
                    self.begin(pool)
                except Error as error:
                    unavailable(error)
                self.stopping.wait(PAUSE)

    def begin(self, pool: ThreadPoolExecutor) -> None:
        close_old_connections()
        due = LinkEvent.objects.due(OuterRef("pk"))  # type: ignore[arg-type]
        while Subscription.objects.exists() and tell_expiries() == EXPIRIES:
            pass
        for receiver in Subscription.objects.filter(Exists(due)):
            if receiver.pk not in self.at_work or self.at_work[receiver.pk].done():
                self.at_work[receiver.pk] = pool.submit(self.drain, receiver)

    def drain(self, receiver: Subscription) -> None:
        try:
            close_old_connections()
            while not self.stopping.is_set() and self.deliver_next(receiver):
                pass
        except Error as error:
            unavailable(error)
        except Exception:  # the thread's result is never read
            logger.exception("Events are not delivered to %s", receiver)


def unavailable(error: Error) -> None:
    """Log the database's error, and connect again next time."""
    logger.warning("Events are not delivered now, because of the database: %s", str(error).strip())
    connection.close()


def deliver_next(receiver: Subscription, deliver: Deliver = update_skip_locked.deliver) -> bool:
    """Deliver the receiver's next event, or postpone it; return whether one was due."""
    taken: list[LinkEvent] = []

    def send(event: LinkEvent) -> None:
        taken.append(event)
        tell(receiver, event)

    try:
        return deliver(receiver.pk, send)
    except (NotDelivered, OSError, HTTPException) as error:
        postpone(taken[-1])
        logger.warning("%s is not delivered to %s: %s", taken[-1], receiver, error)
        return True


def postpone(event: LinkEvent) -> None:
    """Postpone the event, by one second first, then twice as long each time, up to an hour."""
    pause = timedelta(seconds=min(2**event.attempts, POSTPONED_MOST))
    later = {"attempts": F("attempts") + 1, "not_before": CLOCK + pause}
    LinkEvent.objects.filter(pk=event.pk).update(**later)


@transaction.atomic  # Django requires it for FOR UPDATE
def tell_expiries() -> int:
    """Set expiry_told of links that have expired, which writes their events; return how many.

    The statement checks the expiry on the row's newest version, under its lock. A new expiry
    differs from expiry_told, so it gets an event, too.
    """
    expired = ShortUrl.objects.filter(EXPIRY_UNTOLD, expires_at__lte=CLOCK)
    some = expired.order_by("id").select_for_update(skip_locked=True)[:EXPIRIES]
    return ShortUrl.objects.filter(pk__in=some.values("pk")).update(expiry_told=F("expires_at"))


class NotDelivered(Exception):
    """The receiver has answered with another status than 2xx."""


def tell(receiver: Subscription, event: LinkEvent) -> None:
    """Send the event; raise NotDelivered, OSError or HTTPException if it may not have arrived."""
    content = {"type": event.type, "timestamp": event.at.isoformat(), "data": event.data}
    body = json.dumps(content).encode()
    headers = {"Content-Type": "application/json", **signed(receiver.secret, event.pk, body)}
    url = urlsplit(receiver.url)
    with connected(url, time.monotonic() + LONGEST) as connection:
        path = url._replace(scheme="", netloc="", fragment="").geturl()
        connection.request("POST", path or "/", body, headers)
        status = connection.getresponse().status
    if not 200 <= status < 300:
        raise NotDelivered(f"it answered {status}")


@contextmanager
def connected(url: SplitResult, until: float) -> Iterator[HTTPConnection]:
    """Yield a connection to the URL's host, which ends at `until` by time.monotonic().

    Raises OSError. Each wait has a TIMEOUT, too.
    """
    host = url.hostname or ""
    tls = ssl.create_default_context() if url.scheme == "https" else None
    port = url.port or (443 if tls else 80)
    connection = HTTPSConnection(host, port, context=tls) if tls else HTTPConnection(host, port)
    with reached(host, port, until) as plain, plain.dup() as same:
        # A receiver that sends a byte now and then would never run into the timeout.
        timer = threading.Timer(left(until), end, [same])
        timer.start()
        try:
            connection.sock = tls.wrap_socket(plain, server_hostname=host) if tls else plain
            yield connection
        finally:
            timer.cancel()
            connection.close()


def reached(host: str, port: int, until: float) -> socket.socket:
    """Return a connection to the first address of the host that answers; raise OSError."""
    looking_up = _look_ups.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        addresses = looking_up.result(left(until))
    except TimeoutError as error:
        raise TimeoutError(f"{host} is not found within {LONGEST} seconds") from error
    failed = OSError(f"{host} has no address")
    for *_, address in addresses:
        try:
            found = socket.create_connection((str(address[0]), port), min(TIMEOUT, left(until)))
        except OSError as error:
            failed = error
        else:
            found.settimeout(TIMEOUT)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return found
    raise failed


def left(until: float) -> float:
    """Return the seconds until then; raise TimeoutError when it is past."""
    seconds = until - time.monotonic()
    if seconds <= 0:
        raise TimeoutError(f"the request took longer than {LONGEST} seconds")
    return seconds


def end(connection: socket.socket) -> None:
    """End the connection for the thread that waits for it, too."""
    with suppress(OSError):  # the receiver has ended it already
        connection.shutdown(socket.SHUT_RDWR)


def signed(secret: str, number: int, body: bytes) -> dict[str, str]:
    """Return the headers with the event's id, the time in seconds, and the signature of all."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    name, now = f"event_{number}", str(int(time.time()))
    digest = hmac.digest(key, f"{name}.{now}.".encode() + body, hashlib.sha256)
    return {
        "webhook-id": name,
        "webhook-timestamp": now,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
