"""What `manage.py deliver` does: it sends the events to their receivers, each in a thread.

The requests are signed as https://www.standardwebhooks.com specifies.
"""

import base64
import hashlib
import hmac
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from django.db import Error, close_old_connections, connection, transaction
from django.db.models import Exists, F, OuterRef

from shorturl.events.subscribing import MAX_RECEIVERS
from shorturl.models import CLOCK, EXPIRY_UNTOLD, LinkEvent, ShortUrl, Subscription
from shorturl.outages import database_address
from shorturl.strategies.delivering import update_skip_locked

logger = logging.getLogger(__name__)

SEARCH_INTERVAL = 1  # seconds between two searches for events
MAX_PAUSE_SECONDS = 3_600  # before an event is sent again
MAX_EXPIRIES = 1_000  # links of one statement
WAIT_TIMEOUT = 5  # seconds: of each wait for the receiver
# Seconds of a request, once the receiver is connected. A worker of gunicorn has 20 for its end.
REQUEST_TIMEOUT = 10


class Deliverer:
    """Delivers to each receiver in a thread, so a slow receiver delays no other.

    No delivery begins after `is_stopping()` is true.
    """

    def __init__(self, is_stopping: Callable[[], bool]) -> None:
        self.is_stopping = is_stopping
        self.deliveries: dict[int, Future[None]] = {}  # by the receiver's id

    def run(self) -> None:
        """Deliver until it is told to stop, and end after the requests under way."""
        with ThreadPoolExecutor(MAX_RECEIVERS) as pool:
            while not self.is_stopping():
                try:
                    self.start_deliveries(pool)
                except Error as error:
                    log_outage(error)
                time.sleep(SEARCH_INTERVAL)

    def start_deliveries(self, pool: ThreadPoolExecutor) -> None:
        """Start a thread for each receiver that has due events, and no thread yet."""
        close_old_connections()
        while Subscription.objects.exists() and write_expired_events() == MAX_EXPIRIES:
            pass  # there may be more
        due = LinkEvent.objects.due(OuterRef("pk"))  # type: ignore[arg-type]
        for receiver in Subscription.objects.filter(Exists(due)):
            if receiver.pk not in self.deliveries or self.deliveries[receiver.pk].done():
                self.deliveries[receiver.pk] = pool.submit(self.deliver_all, receiver)

    def deliver_all(self, receiver: Subscription) -> None:
        """Deliver the receiver's events one after another until none is due."""
        try:
            close_old_connections()
            while not self.is_stopping() and deliver_next(receiver):
                pass
        except Error as error:
            log_outage(error)
        except Exception:  # the thread's result is never read
            logger.exception("Events are not delivered to %s", receiver)


def log_outage(error: Error) -> None:
    """Log the database's error, and connect again next time."""
    reason = str(error).strip()
    logger.warning("Events wait for the database at %s: %s", database_address(), reason)
    connection.close()


def deliver_next(receiver: Subscription) -> bool:
    """Deliver the receiver's next event, or postpone it; return whether one was due."""
    try:
        return update_skip_locked.deliver(receiver.pk, partial(send_event, receiver))
    except NotDelivered as error:
        postpone(error.event)
        logger.warning("%s is not delivered to %s: %s", error.event, receiver, error)
        return True


def postpone(event: LinkEvent) -> None:
    """Postpone the event, by one second first, then twice as long each time, up to an hour."""
    pause = timedelta(seconds=min(2**event.attempts, MAX_PAUSE_SECONDS))
    later = {"attempts": F("attempts") + 1, "not_before": CLOCK + pause}
    LinkEvent.objects.filter(pk=event.pk).update(**later)


@transaction.atomic  # Django requires it for FOR UPDATE
def write_expired_events() -> int:
    """Set expiry_told of links that have expired; return how many.

    A trigger then writes a link.expired event for each. A new expiry differs from expiry_told, so
    it gets an event, too.
    """
    expired = ShortUrl.objects.filter(EXPIRY_UNTOLD, expires_at__lte=CLOCK)
    batch = expired.order_by("id").select_for_update(skip_locked=True)[:MAX_EXPIRIES]
    return ShortUrl.objects.filter(pk__in=batch.values("pk")).update(expiry_told=F("expires_at"))


class NotDelivered(Exception):
    """The event may not have arrived: there was no answer, or another status than 2xx."""

    def __init__(self, event: LinkEvent, reason: object) -> None:
        super().__init__(reason)
        self.event = event


def send_event(receiver: Subscription, event: LinkEvent) -> None:
    """Send the event; raise NotDelivered."""
    content = {"type": event.type, "timestamp": event.at.isoformat(), "data": event.data}
    body = json.dumps(content).encode()
    headers = {
        "Content-Type": "application/json",
        **signature_headers(receiver.secret, event.pk, body),
    }
    try:
        status = post(receiver.url, body, headers)
    except (OSError, HTTPException, UnicodeError) as error:  # of a host that DNS cannot have
        raise NotDelivered(event, error) from error
    if not 200 <= status < 300:
        raise NotDelivered(event, f"it answered {status}")


def post(url: str, body: bytes, headers: dict[str, str]) -> int:
    """Send a POST, and return the status of its answer; raise OSError, HTTPException, UnicodeError.

    A receiver that sends a byte now and then would never run into WAIT_TIMEOUT, so a timer ends the
    connection.
    """
    split = urlsplit(url)
    connection_class = HTTPSConnection if split.scheme == "https" else HTTPConnection
    http = connection_class(split.hostname or "", split.port, timeout=WAIT_TIMEOUT)
    path = split._replace(scheme="", netloc="", fragment="").geturl()
    with closing(http):
        http.connect()
        # The timer's thread has a copy of the socket, as TLS keeps it from ending http.sock.
        with socket.socket(fileno=os.dup(http.sock.fileno())) as copy:
            timer = threading.Timer(REQUEST_TIMEOUT, shut_down, [copy])
            timer.start()
            try:
                http.request("POST", path or "/", body, headers)
                return http.getresponse().status
            finally:
                timer.cancel()


def shut_down(connection: socket.socket) -> None:
    """End the connection for the thread that waits for it, too."""
    with suppress(OSError):  # the receiver has ended it already
        connection.shutdown(socket.SHUT_RDWR)


def signature_headers(secret: str, event_id: int, body: bytes) -> dict[str, str]:
    """Return the headers with the event's id, the time in seconds, and the signature of all."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    name = f"event_{event_id}"
    now = str(int(time.time()))
    digest = hmac.digest(key, f"{name}.{now}.".encode() + body, hashlib.sha256)
    return {
        "webhook-id": name,
        "webhook-timestamp": now,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
