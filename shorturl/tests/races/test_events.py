"""Events beside each other: each reaches its receiver once and in order, or still waits.

Every order of their statements is run, and has to end as if they had run one after another.
"""

from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial

import pytest

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave
from shorturl import operations
from shorturl.events import delivering, subscribing
from shorturl.events.subscribing import subscribe, unsubscribe
from shorturl.models import LinkEvent, ShortUrl, Subscription
from shorturl.tests.callers import OTHER, TARGET

URL = "https://receiver.example/"
SUBSCRIBED, EXPIRED = datetime(2022, 4, 28, tzinfo=UTC), datetime(2022, 4, 29, tzinfo=UTC)
FUTURE = datetime(2200, 1, 1, tzinfo=UTC)
MANY_ATTEMPTS = 10  # after which the next pause is longer than an exploration

sent: list[int] = []  # the ids of events, in the order of all deliveries
is_down: ContextVar[bool] = ContextVar("is_down")  # each process has a context of its own


def send_event(receiver: Subscription, event: LinkEvent) -> None:
    """Replace the request: note the event, or fail as with a receiver that is down."""
    if is_down.get():
        raise delivering.NotDelivered(event, "it is down")
    sent.append(event.pk)


@pytest.fixture
def receiver(interleave: Interleave, monkeypatch: pytest.MonkeyPatch) -> Subscription:
    monkeypatch.setattr(delivering, "send_event", send_event)
    subscribe(URL)
    Subscription.objects.update(created_at=SUBSCRIBED)
    return Subscription.objects.get()


def deliver(receiver: Subscription, *, receiver_is_down: bool = False) -> None:
    is_down.set(receiver_is_down)
    delivering.deliver_next(receiver)


def postpone_expiry() -> bool:
    return operations.change(ShortUrl.objects.filter(key="a"), expires_at=FUTURE)


@pytest.mark.parametrize("receiver_is_down", [False, True])
def test_two_deliverers_send_each_event_once_and_in_order(
    interleave: Interleave, receiver: Subscription, receiver_is_down: bool
) -> None:
    """Process 1 claims the first event. Process 2 skips it, and the link's next event with it.

    If process 1 cannot reach the receiver, it postpones the event, and the next one still waits.
    """
    operations.create(TARGET, key="a")
    operations.change(ShortUrl.objects.filter(key="a"), target_url=OTHER)
    LinkEvent.objects.update(attempts=MANY_ATTEMPTS)
    event_ids = LinkEvent.objects.order_by("id").values_list("id", flat=True)
    both_ids = list(event_ids)

    def check_that_each_is_sent_once_and_in_order(outcomes: list[Outcome]) -> None:
        waiting = event_ids.exclude(id__in=sent)
        assert [*sent, *waiting] == both_ids

    interleave(
        partial(deliver, receiver, receiver_is_down=receiver_is_down),
        partial(deliver, receiver),
        setup=sent.clear,
        invariant=check_that_each_is_sent_once_and_in_order,
    )


def test_a_receiver_is_removed_during_a_delivery(
    interleave: Interleave, receiver: Subscription, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process 1 claims the event. Process 2 removes the receiver with its events and a trigger."""
    operations.create(TARGET, key="a")
    monkeypatch.setattr(subscribing, "TRIGGERS", ["link.created"])  # one step instead of five
    interleave(partial(deliver, receiver), partial(unsubscribe, URL))


@pytest.mark.parametrize("beside", [delivering.write_expired_events, postpone_expiry])
def test_an_expiry_has_one_event_or_is_postponed(
    interleave: Interleave, receiver: Subscription, beside: Callable[[], object]
) -> None:
    """Process 1 writes the events of expired links. Process 2 does so too, or sets a later expiry.

    The statement of process 1 checks the expiry in the newest version of the row.
    """
    operations.create(TARGET, key="a", expires_at=EXPIRED)
    interleave(delivering.write_expired_events, beside)
