"""Events: the changes that write them, what a receiver gets, and retries."""

import base64
import hashlib
import hmac
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Barrier, Event, Thread, Timer
from threading import enumerate as enumerate_threads
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
from shorturl.tests.callers import OTHER, TARGET, call_and_close_connection, create_link, run

URL = "https://receiver.example/hook"
HOUR = timedelta(hours=1)
EXPIRY = datetime(2090, 1, 1, tzinfo=UTC)
TIMEOUT = 30  # seconds

pytestmark = pytest.mark.django_db


def change(**values: Any) -> None:
    operations.change(ShortUrl.objects.filter(key="a"), **values)


def follow(key: str = "a") -> None:
    following.follow(key, Visit(is_bot=False))


def deliver_all(subscription: Subscription) -> None:
    while deliver_next(subscription):
        pass


def types_of(key: str = "a") -> list[str]:
    events = LinkEvent.objects.filter(key=key).order_by("id").values_list("type", flat=True)
    return [event.removeprefix("link.") for event in events]


def count_triggers() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_trigger WHERE tgfoid = 'shorturl_tell'::regproc")
        return int(cursor.fetchone()[0])


def test_each_change_of_a_link_writes_its_event() -> None:
    subscribe(URL)
    create_link("gone", deleted_at=timezone.now())  # as an import may have it
    assert types_of("gone") == []
    create_link("a", max_hits=2)
    change(target_url=OTHER)
    change(target_url=OTHER)  # which is no change
    follow()  # one of two hits
    with transaction.atomic():  # an edit can use a link up, and a rollback leaves no event
        change(max_hits=1)
        assert types_of() == ["created", "edited", "edited", "used_up"]
        transaction.set_rollback(True)
    follow()  # two of two
    change(max_hits=3)
    follow()  # three of three
    ShortUrl.objects.filter(key="a").delete()
    assert types_of() == ["created", "edited", "used_up", "edited", "used_up", "deleted"]
    assert LinkEvent.objects.filter(type="link.used_up").latest("id").data["max_hits"] == 3


def test_without_a_subscription_there_are_no_events_and_no_triggers() -> None:
    create_link("before", max_hits=1)
    follow("before")
    assert (LinkEvent.objects.count(), count_triggers()) == (0, 0)
    for url in (URL, f"{URL}/2"):
        subscribe(url)
    create_link("a")
    assert (LinkEvent.objects.count(), count_triggers()) == (2, len(TRIGGERS))
    assert unsubscribe(f"{URL}/2")
    assert (LinkEvent.objects.get().subscription.url, count_triggers()) == (URL, len(TRIGGERS))
    assert unsubscribe(URL)
    assert (LinkEvent.objects.count(), count_triggers()) == (0, 0)


def test_each_expiry_after_the_subscription_has_one_event() -> None:
    now = timezone.now()
    create_link("old", expires_at=now - HOUR)
    subscribe(URL)
    Subscription.objects.update(created_at=now - HOUR / 2)  # after the expiry of `old`
    create_link("a", expires_at=now)
    create_link("later", expires_at=now + HOUR)
    assert [write_expired_events(), write_expired_events()] == [2, 0]  # `old` and `a`, once
    change(expires_at=now - timedelta(minutes=1))
    assert write_expired_events() == 1
    assert types_of() == ["created", "expired", "edited", "expired"]
    assert (types_of("old"), types_of("later")) == ([], ["created"])


@pytest.mark.django_db(transaction=True)
def test_a_search_tells_all_expiries_and_delivers_nothing_once_it_is_to_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delivering, "MAX_EXPIRIES", 1)  # of a statement
    deliverer = Deliverer(is_stopping=lambda: True)

    def search() -> int:
        """Return how many expiries are told afterwards."""
        with ThreadPoolExecutor(1) as pool:
            deliverer.start_deliveries(pool)
        return ShortUrl.objects.exclude(expiry_told=None).count()

    for key in "ab":
        create_link(key, expires_at=timezone.now())
    assert search() == 0  # without a receiver
    receiver = Subscription.objects.create(url=URL, secret="whsec_")
    LinkEvent.objects.create(subscription=receiver, key="a")
    assert search() == 2
    deliverer.deliver_all(receiver)
    event = LinkEvent.objects.get()
    assert (event.attempts, event.not_before) == (0, None)


@pytest.mark.django_db(transaction=True)
def test_an_event_that_cannot_be_signed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    receiver = Subscription.objects.create(url=URL, secret="whsec_x")
    LinkEvent.objects.create(subscription=receiver, key="a")
    Deliverer(is_stopping=lambda: False).deliver_all(receiver)
    assert caplog.messages == [f"Events are not delivered to {URL}"]


def test_expired_links_are_found_by_the_index() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")  # which leaves scans of an index
    expired = ShortUrl.objects.filter(EXPIRY_UNTOLD, expires_at__lte=timezone.now())
    assert "shorturl_shorturl_expiry_ix" in expired.order_by("expires_at").explain()


class Receiver(ThreadingHTTPServer):
    """Stores what it gets, and answers with the status for the link's key, or 200."""

    def __init__(self) -> None:
        self.requests: list[tuple[Any, bytes]] = []
        self.received = Event()  # set by each request
        self.statuses: dict[str, int] = {}
        self.answering = Event()  # answers wait until it is set
        self.answering.set()
        super().__init__(("127.0.0.1", 0), ReceiverHandler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?from=us"

    def types(self) -> list[str]:
        events = [json.loads(body) for _, body in self.requests]
        return [f"{event['type']} {event['data']['key']}" for event in events]


class ReceiverHandler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append(({**self.headers, "path": self.path}, body))
        self.server.received.set()
        self.server.answering.wait(TIMEOUT)
        self.send_response(self.server.statuses.get(json.loads(body)["data"]["key"], 200))
        self.send_header("Location", "/elsewhere")  # for a 300
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
    for key in "ab":
        create_link(key)
    change(max_hits=7, expires_at=EXPIRY)
    before = int(time.time())
    deliver_all(subscription)
    assert receiver.types() == ["link.created a", "link.created b", "link.edited a"]
    assert not LinkEvent.objects.exists()
    headers, body = receiver.requests[-1]
    assert headers["path"] == "/hook?from=us"
    assert headers["Content-Type"] == "application/json"
    event = json.loads(body)
    times = event["timestamp"], event["data"].pop("created_at")
    edited_at, created_at = map(datetime.fromisoformat, times)
    assert created_at == ShortUrl.objects.get(key="a").created_at < edited_at <= timezone.now()
    data = {"key": "a", "target_url": TARGET, "max_hits": 7, "expires_at": EXPIRY.isoformat()}
    assert event["data"] == data
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    secret = base64.b64decode(subscription.secret.removeprefix("whsec_"))
    signature = base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
    assert headers["webhook-signature"] == f"v1,{signature}"
    assert before <= int(headers["webhook-timestamp"]) <= time.time()
    timers = [thread for thread in enumerate_threads() if isinstance(thread, Timer)]
    of_requests = [timer for timer in timers if timer.function is delivering.shut_down]
    assert all(timer.finished.is_set() for timer in of_requests)  # or the end would wait for them


@pytest.mark.parametrize("status", [300, 404, 500])
def test_a_refused_event_delays_the_next_ones_of_its_link_alone(
    receiver: Receiver, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    subscription = subscribe(receiver.url)
    create_link("a")
    change(max_hits=7)
    create_link("b")
    receiver.statuses["a"] = status
    deliver_all(subscription)
    message = f"link.created of a is not delivered to {receiver.url}: it answered {status}"
    assert caplog.messages == [message]
    assert receiver.types() == ["link.created a", "link.created b"]
    receiver.statuses.clear()
    LinkEvent.objects.update(not_before=timezone.now())  # as a second later
    deliver_all(subscription)
    assert receiver.types()[2:] == ["link.created a", "link.edited a"]
    ids = [headers["webhook-id"] for headers, _ in receiver.requests]
    assert ids[0] == ids[2]
    assert len(set(ids)) == 3


def test_the_pauses_double_up_to_an_hour() -> None:
    event = LinkEvent.objects.create(subscription=subscribe(URL), key="a")
    # Attempts before, and the pause after one more.
    for attempts, seconds in {0: 1, 1: 2, 2: 4, 11: 2048, 12: 3600, 100: 3600}.items():
        event.attempts = attempts
        before = timezone.now()
        postpone(event)
        not_before = LinkEvent.objects.get().not_before
        assert not_before
        assert before <= not_before - timedelta(seconds=seconds) <= timezone.now()
    assert LinkEvent.objects.get().attempts == 6  # each postponement counts one in the database


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "down",
    [
        "http://127.0.0.1:9/",  # nothing listens on this port
        "http://a..example/",  # which subscribe() refuses, as DNS cannot have it
    ],
)
def test_a_receiver_that_is_down_delays_no_other_one(receiver: Receiver, down: str) -> None:
    Subscription.objects.create(url=down, secret="whsec_")
    subscribe(receiver.url)
    deliverer = Deliverer(lambda: False)
    with ThreadPoolExecutor(2) as pool:
        for key in "ab":  # again for what happens after a receiver had no more events
            create_link(key, expires_at=timezone.now())
            LinkEvent.objects.update(not_before=timezone.now())  # as after a pause
            deliverer.start_deliveries(pool)
            for delivery in deliverer.deliveries.values():
                delivery.result(TIMEOUT)
        # Each of the two threads closes its connection: it waits for the other one first.
        both_threads = Barrier(2)
        for _ in range(2):
            pool.submit(call_and_close_connection, partial(both_threads.wait, TIMEOUT))
    assert receiver.types() == [
        f"link.{name} {key}" for key in "ab" for name in ("created", "expired")
    ]
    left = LinkEvent.objects.select_related("subscription")
    assert {event.subscription.url for event in left} == {down}
    assert [event.attempts > 0 for event in left.filter(type="link.created")] == [True, True]
    for url in (down, receiver.url):
        unsubscribe(url)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Yield the port of a receiver that accepts one connection, and sends nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def full_port(silent_port: int) -> Iterator[int]:
    """Yield the port of a receiver that answers no attempt to connect."""
    with socket.create_connection(("127.0.0.1", silent_port)):
        yield silent_port


@pytest.mark.parametrize(
    ("limit", "port", "scheme"),
    [
        pytest.param("WAIT_TIMEOUT", "full_port", "http", id="connecting"),
        pytest.param("WAIT_TIMEOUT", "silent_port", "https", id="TLS"),
        pytest.param("WAIT_TIMEOUT", "silent_port", "http", id="answer"),
        pytest.param("REQUEST_TIMEOUT", "silent_port", "http", id="request"),
    ],
)
def test_a_request_ends_wherever_the_receiver_stalls(
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    limit: str,
    port: str,
    scheme: str,
) -> None:
    """A wait has a limit, and the request, which may have many waits, has one, too."""
    for name in ("WAIT_TIMEOUT", "REQUEST_TIMEOUT"):
        monkeypatch.setattr(delivering, name, 0.2 if name == limit else TIMEOUT)  # seconds
    subscription = subscribe(f"{scheme}://127.0.0.1:{request.getfixturevalue(port)}/")
    create_link("a")
    before = time.monotonic()
    assert deliver_next(subscription)
    assert time.monotonic() - before < TIMEOUT / 2
    assert LinkEvent.objects.get().attempts == 1


def test_a_deliverer_claims_an_event_for_longer_than_a_request_takes() -> None:
    """No other deliverer takes the event before the time `not_before`."""
    claimed: list[LinkEvent] = []
    subscription = subscribe(URL)
    create_link("a")
    update_skip_locked.deliver(subscription.pk, claimed.append)
    claimed_until = claimed[0].not_before
    assert claimed_until
    assert claimed_until > timezone.now() + timedelta(seconds=2 * delivering.REQUEST_TIMEOUT)


def test_the_command_adds_lists_removes_and_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = run("webhook", "add", URL).output.strip()
    assert secret == Subscription.objects.get().secret
    assert len(base64.b64decode(secret.removeprefix("whsec_"))) == 24
    create_link("a")
    assert run("webhook", "list").output == f"{URL}  1 event waiting\n"
    for url, message in [
        (URL, f"'{URL}' is a receiver already"),
        ("ftp://a.example", "like https://"),
        (f"https://{'a' * 64}.example", "like https://"),
    ]:
        with pytest.raises(CommandError, match=message):
            run("webhook", "add", url)
    with pytest.raises(CommandError, match=r"at a\.example has a user name") as refused:
        run("webhook", "add", "https://user:secret@a.example/")
    assert "secret" not in str(refused.value)
    monkeypatch.setattr(subscribing, "MAX_RECEIVERS", 1)
    with pytest.raises(CommandError, match="remove one first"):
        run("webhook", "add", f"{URL}/2")
    Subscription.objects.create(url=f"{URL}/0")
    Subscription.objects.filter(url=URL).update(secret="moved")  # behind it in the table
    assert [line.split()[0] for line in run("webhook", "list").output.splitlines()] == [
        *(URL, f"{URL}/0")
    ]
    run("webhook", "remove", URL)
    with pytest.raises(CommandError, match="No receiver is"):
        run("webhook", "remove", URL)


def test_a_receiver_is_the_address_that_a_browser_reads() -> None:
    """So one address is not two receivers, and events go where the list says."""
    run("webhook", "add", "HTTPS://Bücher.example:443/hook")
    with pytest.raises(CommandError, match="is a receiver already"):
        run("webhook", "add", "https://bücher.example/hook")
    listed = run("webhook", "list").output
    assert listed == "https://xn--bcher-kva.example/hook  0 events waiting\n"
    run("webhook", "remove", "https://BÜCHER.example/hook")
    old = Subscription.objects.create(url="https://a..example/hook", secret="whsec_")
    run("webhook", "remove", old.url)
    assert not Subscription.objects.exists()
