"""Write a correct `deliver`: `pytest lab/exercises/deliver.py` tests it.

`deliver` calls `send` with the oldest event that is due for a receiver, deletes the event, and
returns True. It returns False when no event is due. `LinkEvent.objects.due()` returns the due
events: the oldest event of each link, unless it is claimed until a later `not_before`. When `send`
raises an error, `deliver` raises it, and the event stays.

The function below sends some events twice. Which other process has read the same event?
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

from django.utils import timezone

from lab.exercises import judging as judge
from lab.races.delivering_races import (
    EVENTS,
    LARGE,
    RECEIVER,
    Pair,
    each_once_in_order,
    only,
    worker,
    write_late,
)
from pginterleave import Outcome
from shorturl.models import LinkEvent, Subscription

Send = Callable[[LinkEvent], object]


def deliver(subscription_id: int, send: Send) -> bool:
    event = LinkEvent.objects.due(subscription_id).order_by("id").first()
    if event is None:
        return False
    event.not_before = timezone.now() + timedelta(minutes=1)
    event.save()
    send(event)
    event.delete()
    return True


# The tests. Do not change anything below.

SOME = (*EVENTS, (3, "b"))
FOREVER = datetime(9999, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
OTHER = 2  # another receiver


def function(subscription_id: int, send: Send) -> bool:
    return deliver(subscription_id, send)


def events(*some: Pair) -> Any:
    """Return a set-up with these events, and with an older event of another receiver."""

    def setup() -> None:
        only(*some)
        Subscription.objects.get_or_create(id=OTHER, url="https://other.example/")
        LinkEvent.objects.create(id=-1, key="a", subscription_id=OTHER)

    return setup


def left() -> list[int]:
    return list(
        LinkEvent.objects.filter(subscription_id=RECEIVER)
        .order_by("id")
        .values_list("id", flat=True)
    )


def sends(*due: int, rest: tuple[int, ...] = ()) -> Any:
    """Return the invariant that these events are sent in this order, and that `rest` is left."""

    def invariant(outcomes: list[Outcome]) -> str:
        sent = [pk for _, pk, _ in outcomes[0].returned]
        if sent != [*due]:
            return f"the events {sent} are sent, expected {[*due]}"
        if left() != [*rest]:
            return f"the events {left()} are left, expected {[*rest]}"
        others = LinkEvent.objects.filter(subscription_id=OTHER).count()
        return "" if others == 1 else "an event of another receiver is gone"

    return invariant


def sends_one(interleave: Any, **given: Any) -> None:
    interleave(worker(function), invariant=sends(1, rest=(2, 3)), **given)


def all_are_sent(outcomes: list[Outcome]) -> str:
    """Check that each event is sent once and in order or is left, and that no claim is long."""
    LinkEvent.objects.filter(subscription_id=OTHER).delete()
    if LinkEvent.objects.filter(not_before__gt=timezone.now() + HOUR).exists():
        return "an event is claimed for longer than an hour"
    return each_once_in_order(outcomes)


def test_one_sends_the_oldest(interleave: Any) -> None:
    sends_one(interleave, setup=events(*SOME))


def test_it_returns_whether_an_event_was_due(interleave: Any) -> None:
    """There are three events, so the fourth call returns False."""

    def run() -> list[bool]:
        return [bool(deliver(RECEIVER, lambda _: None)) for _ in range(4)]

    def as_due(outcomes: list[Outcome]) -> str:
        due, told = [True] * 3 + [False], outcomes[0].returned
        return "" if told == due else f"with three events it returns {told}, expected {due}"

    interleave(run, setup=events(*SOME), invariant=as_due)


def test_a_claimed_event_holds_back_the_next_of_its_link(interleave: Any) -> None:
    def setup() -> None:
        events(*SOME)()
        LinkEvent.objects.filter(id=1).update(not_before=FOREVER)

    interleave(worker(function), setup=setup, invariant=sends(3, rest=(1, 2)))


def test_an_event_is_due_again_when_its_claim_has_expired(interleave: Any) -> None:
    def setup() -> None:
        events(*SOME)()
        LinkEvent.objects.update(not_before=timezone.now() - HOUR)

    sends_one(interleave, setup=setup)


def test_an_event_stays_when_send_fails(interleave: Any) -> None:
    def fails(event: LinkEvent) -> None:
        raise ValueError("refused")

    def stays(outcomes: list[Outcome]) -> str:
        if not isinstance(outcomes[0].raised, ValueError):
            return f"send has raised an error, and process 1 gets {outcomes[0].returned!r}"
        return "" if left() == [1, 2, 3] else f"send has raised an error, and {left()} are left"

    call = lambda: deliver(RECEIVER, fails)  # noqa: E731
    interleave(call, setup=events(*SOME), invariant=stays, expected=ValueError)


def test_two_deliver_at_once(interleave: Any) -> None:
    both = [worker(function), worker(function)]
    interleave(*both, setup=events(*EVENTS), invariant=all_are_sent)


def test_a_process_is_killed_before_it_sends(interleave: Any) -> None:
    both = [worker(function, killed=True), worker(function)]
    interleave(*both, setup=events(*EVENTS), invariant=all_are_sent)


def test_an_event_is_committed_late(interleave: Any) -> None:
    def none_is_lost(outcomes: list[Outcome]) -> str:
        return each_once_in_order(outcomes[1:], ((1, "a"), (LARGE, "b")))

    interleave(
        write_late, worker(function), setup=lambda: only((LARGE, "b")), invariant=none_is_lost
    )


def test_plain_threads_deliver(interleave: Any) -> None:
    """Without the explorer."""
    sends_one(interleave, setup=events(*SOME))
    due = tuple((number, "abcd"[number % 4]) for number in range(1, 41))
    only(*due)
    sent, lock = list[Pair](), Lock()

    def send(event: LinkEvent) -> None:
        with lock:
            sent.append((event.pk, event.key))

    told = judge.in_threads(lambda _: deliver(RECEIVER, send), times=40)
    if errors := [each for each in told if isinstance(each, Exception)]:
        judge.refuse(f"Threads deliver, and one gets {errors[0]!r}.")
    outcome = Outcome([(number, *event) for number, event in enumerate(sent)])
    if wrong := each_once_in_order([outcome], due):
        judge.refuse(f"Threads deliver: {wrong}.")
