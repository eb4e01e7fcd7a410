"""Events beside each other: each reaches its receiver once and in order, or still waits."""

from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial

import pytest

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave
from shorturl import operations
from shorturl.events import delivering
from shorturl.events.subscribing import subscribe, unsubscribe
from shorturl.models import LinkEvent, ShortUrl, Subscription
from shorturl.tests.callers import OTHER, TARGET

URL = "https://receiver.example/"
SUBSCRIBED, EXPIRED = datetime(2022, 4, 28, tzinfo=UTC), datetime(2022, 4, 29, tzinfo=UTC)
FUTURE = datetime(2200, 1, 1, tzinfo=UTC)
# Attempts before: the pause after the next one is longer than an exploration.
MANY_ATTEMPTS = 10

sent: list[int] = []  # the ids of events, in the order of all deliveries
is_down: ContextVar[bool] = ContextVar("is_down")  # each process has a context of its own


def send_event(receiver: Subscription, event: LinkEvent) -> None:
    """Note the event in place of a request."""
    if is_down.get():
        raise delivering.NotDelivered
    sent.append(event.pk)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivering, "send_event", send_event)


@pytest.fixture
def receiver(interleave: Interleave) -> Subscription:
    subscribe(URL)
    Subscription.objects.update(created_at=SUBSCRIBED)
    return Subscription.objects.get()


def deliver(receiver: Subscription, *, receiver_is_down: bool = False) -> None:
    is_down.set(receiver_is_down)
    delivering.deliver_next(receiver)


def once_in_order(outcomes: list[Outcome]) -> None:
    """Compare the events that were sent, and then those that wait, with the two there were."""
    waiting = LinkEvent.objects.exclude(id__in=sent).order_by("id").values_list("id", flat=True)
    events = [*sent, *waiting]
    assert events == sorted(set(events))
    assert len(events) == 2


def types() -> list[str]:
    return list(LinkEvent.objects.order_by("id").values_list("type", flat=True))


@pytest.mark.parametrize("receiver_is_down", [False, True])
def test_two_deliverers(
    interleave: Interleave, receiver: Subscription, receiver_is_down: bool
) -> None:
    """Process 1 claims the first event. Process 2 skips it, and the link's next event with it.

    Whether process 1 sends the event, or cannot reach the receiver and postpones it: the second
    event is not sent before the first one.
    """
    operations.create(TARGET, key="a")
    operations.change(ShortUrl.objects.filter(key="a"), target_url=OTHER)
    LinkEvent.objects.update(attempts=MANY_ATTEMPTS)
    interleave(
        partial(deliver, receiver, receiver_is_down=receiver_is_down),
        partial(deliver, receiver),
        setup=sent.clear,
        invariant=once_in_order,
    )


def test_a_delivery_beside_the_removal_of_its_receiver(
    interleave: Interleave, receiver: Subscription
) -> None:
    """Process 1 claims the event. Process 2 removes the receiver with its events and triggers."""
    operations.create(TARGET, key="a")

    def nothing_is_left(outcomes: list[Outcome]) -> None:
        assert outcomes[1].returned
        assert (Subscription.objects.count(), types(), len(sent) <= 1) == (0, [], True)

    interleave(
        partial(deliver, receiver),
        partial(unsubscribe, URL),
        setup=sent.clear,
        invariant=nothing_is_left,
    )


def put_off() -> bool:
    return operations.change(ShortUrl.objects.filter(key="a"), expires_at=FUTURE)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (delivering.write_expired_events, ["link.expired"]),
        (put_off, ["link.edited", "link.expired link.edited"]),
    ],
)
def test_an_expiry_is_told_once(
    interleave: Interleave,
    receiver: Subscription,
    other: Callable[[], object],
    expected: list[str],
) -> None:
    """Process 1 writes the events of expired links. Process 2 does so too, or puts it off.

    The statement checks the expiry on the row's newest version, so nobody is told of an end that
    was put off before.
    """
    operations.create(TARGET, key="a", expires_at=EXPIRED)

    def is_told_once(outcomes: list[Outcome]) -> None:
        assert " ".join(types()) in [f"link.created {events}" for events in expected]

    interleave(delivering.write_expired_events, other, invariant=is_told_once)
