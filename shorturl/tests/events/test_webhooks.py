"""Events: the changes that write them, what a receiver gets, and retries."""

import base64
import hashlib
import hmac
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Barrier, Event, Thread
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import connection, transaction
from django.utils import timezone

from shorturl import following, operations
from shorturl.events import delivering, subscribing
from shorturl.events.delivering import Deliverer, deliver_next, postpone, write_expired_events
from shorturl.events.subscribing import TRIGGERS, subscribe, unsubscribe
from shorturl.models import EXPIRY_UNTOLD, LinkEvent, ShortUrl, Subscription, Visit
from shorturl.strategies.delivering import update_skip_locked
from shorturl.tests.callers import closing_connection, run

URL = "https://receiver.example/hook"
TARGET = "https://example.com/"
HOUR = timedelta(hours=1)
TIMEOUT = 30  # seconds

pytestmark = pytest.mark.django_db


def types_of(key: str = "a") -> list[str]:
    return list(LinkEvent.objects.filter(key=key).order_by("id").values_list("type", flat=True))


PERSON = Visit(is_bot=False)


def links() -> Any:
    return ShortUrl.objects.filter(key="a")


def triggers() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_trigger WHERE tgfoid = 'shorturl_tell'::regproc")
        return int(cursor.fetchone()[0])


def test_each_change_writes_its_event_while_there_is_a_subscription() -> None:
    operations.create(TARGET, key="before", max_hits=1)
    following.follow("before", PERSON)
    assert (LinkEvent.objects.count(), triggers()) == (0, 0)
    subscribe(URL)
    operations.create(TARGET, key="a", max_hits=2)
    operations.change(links(), target_url=f"{TARGET}new")
    operations.change(links(), target_url=f"{TARGET}new")  # changes nothing
    edited, used_up = "link.edited", "link.used_up"
    following.follow("a", PERSON)
    with transaction.atomic():  # an edit can use a link up, and a rollback leaves no event
        operations.change(links(), max_hits=1)
        assert types_of() == ["link.created", edited, edited, used_up]
        transaction.set_rollback(True)
    following.follow("a", PERSON)
    operations.change(links(), max_hits=3)
    following.follow("a", PERSON)
    links().delete()
    assert types_of() == ["link.created", edited, used_up, edited, used_up, "link.deleted"]
    assert LinkEvent.objects.filter(type=used_up).latest("id").data["max_hits"] == 3
    assert triggers() == len(TRIGGERS)
    assert unsubscribe(URL)
    assert (LinkEvent.objects.count(), triggers()) == (0, 0)


def test_each_expiry_has_one_event() -> None:
    """An expiry before the subscription has none."""
    now = timezone.now()
    operations.create(TARGET, key="old", expires_at=now - HOUR)
    subscribe(URL)
    Subscription.objects.update(created_at=now - HOUR / 2)
    operations.create(TARGET, key="a", expires_at=now)
    operations.create(TARGET, key="later", expires_at=now + HOUR)
    assert [write_expired_events(), write_expired_events()] == [2, 0]
    operations.change(links(), expires_at=now - timedelta(minutes=1))
    assert write_expired_events() == 1
    assert types_of() == ["link.created", "link.expired", "link.edited", "link.expired"]
    assert types_of("old") == []
    assert types_of("later") == ["link.created"]


def test_expiries_are_found_by_the_index() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")
        expired = ShortUrl.objects.filter(EXPIRY_UNTOLD, expires_at__lte=timezone.now())
        assert "shorturl_shorturl_expiry_ix" in expired.order_by("expires_at").explain()


class Receiver(ThreadingHTTPServer):
    """Stores what it gets, and answers with the status for the link's key, or 204."""

    def __init__(self) -> None:
        self.got: list[tuple[Any, bytes]] = []
        self.noted = Event()
        self.statuses: dict[str, int] = {}
        super().__init__(("127.0.0.1", 0), Noting)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?from=us"

    def types(self) -> list[str]:
        return [f"{(got := json.loads(body))['type']} {got['data']['key']}" for _, body in self.got]


class Noting(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append(({**self.headers, "path": self.path}, body))
        self.server.noted.set()
        self.send_response(self.server.statuses.get(json.loads(body)["data"]["key"], 204))
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        Thread(target=server.serve_forever, args=[0.02]).start()  # seconds between its polls
        yield server
        server.shutdown()


def test_a_receiver_gets_signed_events_in_the_order_of_each_link(receiver: Receiver) -> None:
    subscription = subscribe(receiver.url)
    operations.create(TARGET, key="a")
    operations.create(TARGET, key="b")
    operations.change(links(), max_hits=7)
    while deliver_next(subscription):
        pass
    assert receiver.types() == ["link.created a", "link.created b", "link.edited a"]
    assert not LinkEvent.objects.exists()
    headers, body = receiver.got[-1]
    assert headers["path"] == "/hook?from=us"
    assert json.loads(body)["data"]["max_hits"] == 7
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(subscription.secret.removeprefix("whsec_"))
    due = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    assert headers["webhook-signature"] == f"v1,{due}"


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_refused_event_delays_the_next_ones_of_its_link_alone(
    receiver: Receiver, status: int
) -> None:
    subscription = subscribe(receiver.url)
    operations.create(TARGET, key="a")
    operations.change(links(), max_hits=7)
    operations.create(TARGET, key="b")
    receiver.statuses["a"] = status
    while deliver_next(subscription):
        pass
    assert receiver.types() == ["link.created a", "link.created b"]
    receiver.statuses.clear()
    LinkEvent.objects.update(not_before=None)  # as a second later
    while deliver_next(subscription):
        pass
    assert receiver.types()[2:] == ["link.created a", "link.edited a"]
    first, again = (receiver.got[n][0]["webhook-id"] for n in (0, 2))
    assert first == again


def test_the_pauses_double_up_to_an_hour() -> None:
    event = LinkEvent.objects.create(subscription=subscribe(URL), key="a")
    for attempts, seconds in {0: 1, 1: 2, 2: 4, 11: 2048, 12: 3600, 100: 3600}.items():
        event.attempts = attempts
        before = timezone.now()
        postpone(event)
        due = LinkEvent.objects.values_list("not_before", flat=True)[0]
        assert due
        assert before <= due - timedelta(seconds=seconds) <= timezone.now()
    assert LinkEvent.objects.get().attempts == 6


@pytest.mark.django_db(transaction=True)
def test_a_receiver_that_is_down_delays_no_other_one(receiver: Receiver) -> None:
    subscribe("http://127.0.0.1:9/nobody")
    subscribe(receiver.url)
    operations.create(TARGET, key="a")
    deliverer = Deliverer(deliver_next)
    with ThreadPoolExecutor(2) as pool:
        deliverer.start_deliveries(pool)
        for delivery in deliverer.deliveries.values():
            delivery.result(TIMEOUT)
        both = Barrier(2)
        for _ in range(2):
            pool.submit(closing_connection, partial(both.wait, TIMEOUT))
    left = LinkEvent.objects.get()
    assert receiver.types() == ["link.created a"]
    assert (left.subscription.url, left.attempts) == ("http://127.0.0.1:9/nobody", 1)
    for url in (receiver.url, left.subscription.url):
        unsubscribe(url)


@pytest.fixture
def silent() -> Iterator[int]:
    """Yield the port of a receiver that accepts one connection, and sends nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def full(silent: int) -> Iterator[int]:
    """Yield the port of a receiver that answers no attempt to connect."""
    with socket.create_connection(("127.0.0.1", silent)):
        yield silent


@pytest.mark.parametrize(
    ("timeout", "receiver", "url"),
    [
        ("WAIT_TIMEOUT", "full", "http://127.0.0.1:{}/"),
        ("WAIT_TIMEOUT", "silent", "https://127.0.0.1:{}/"),
        ("WAIT_TIMEOUT", "silent", "http://127.0.0.1:{}/"),
        ("REQUEST_TIMEOUT", "silent", "http://127.0.0.1:{}/"),
    ],
    ids=["connecting", "TLS", "answer", "request"],
)
def test_a_request_ends_wherever_the_receiver_stalls(
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    timeout: str,
    receiver: str,
    url: str,
) -> None:
    """Each wait ends, and there may be many, so the request ends, too."""
    for name in ("WAIT_TIMEOUT", "REQUEST_TIMEOUT"):
        monkeypatch.setattr(delivering, name, 0.2 if name == timeout else TIMEOUT)
    subscription = subscribe(url.format(request.getfixturevalue(receiver)))
    operations.create(TARGET, key="a")
    before = time.monotonic()
    assert deliver_next(subscription)
    assert time.monotonic() - before < TIMEOUT / 2
    assert LinkEvent.objects.get().attempts == 1


def test_a_claim_is_longer_than_a_request() -> None:
    claimed: list[LinkEvent] = []
    subscription = subscribe(URL)
    operations.create(TARGET, key="a")
    update_skip_locked.deliver(subscription.pk, claimed.append)
    (ends,) = (event.not_before for event in claimed)
    assert ends
    assert ends - timezone.now() > timedelta(seconds=2 * delivering.REQUEST_TIMEOUT)


def test_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("webhook", "add", URL)[0] == f"{Subscription.objects.get().secret}\n"
    operations.create(TARGET, key="a")
    assert run("webhook", "list")[0] == f"{URL}  1 event waiting\n"
    with pytest.raises(CommandError, match="is a receiver already"):
        run("webhook", "add", URL)
    with pytest.raises(CommandError, match="write it like https://"):
        run("webhook", "add", "ftp://example.com")
    monkeypatch.setattr(subscribing, "MAX_RECEIVERS", 1)
    with pytest.raises(CommandError, match="remove one first"):
        run("webhook", "add", f"{URL}/2")
    run("webhook", "remove", URL)
    with pytest.raises(CommandError, match="No receiver is"):
        run("webhook", "remove", URL)
