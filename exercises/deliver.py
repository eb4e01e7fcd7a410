"""Write a deliver that holds: `pytest exercises/deliver.py` judges it.

It calls `send` with the oldest event that is due for a receiver, deletes the event, and returns
True; it returns False when no event is due. `LinkEvent.objects.due()` has those that are due: not
claimed until `not_before`, and the oldest of their link. An error of `send` is raised, and the
event stays.

As it stands each event is sent, and some are sent twice. Who else has read it?
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

from django.utils import timezone

from exercises import judging as judge
from lab.catalogue.delivering_races import (
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


# What judges it. Nothing below is to be changed.

SOME = (*EVENTS, (3, "b"))
FOREVER = datetime(9999, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
OTHER = 2  # a receiver


def function(subscription_id: int, send: Send) -> bool:
    return deliver(subscription_id, send)


def events(*some: Pair) -> Any:
    """Return a set-up: these events, and an older one of another receiver."""

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
    """Return the invariant that these events are sent, in turn, and what is left."""

    def invariant(outcomes: list[Outcome]) -> str:
        sent = [pk for _, pk, _ in outcomes[0].returned]
        if sent != [*due]:
            return f"the events {sent} are sent, due {[*due]}"
        if left() != [*rest]:
            return f"the events {left()} are left, due {[*rest]}"
        others = LinkEvent.objects.filter(subscription_id=OTHER).count()
        return "" if others == 1 else "an event of another receiver is gone"

    return invariant


def sends_one(interleave: Any, **given: Any) -> None:
    interleave(worker(function), invariant=sends(1, rest=(2, 3)), **given)


def all_are_sent(outcomes: list[Outcome]) -> str:
    """Check that each is sent once and in order, or is left, and claimed for an hour at most."""
    LinkEvent.objects.filter(subscription_id=OTHER).delete()
    if LinkEvent.objects.filter(not_before__gt=timezone.now() + HOUR).exists():
        return "an event is claimed for longer than an hour"
    return each_once_in_order(outcomes)


def test_one_sends_the_oldest(interleave: Any) -> None:
    sends_one(interleave, setup=events(*SOME))


def test_one_is_told_whether_there_was_one(interleave: Any) -> None:
    """Three are there, and not a fourth."""

    def run() -> list[bool]:
        return [bool(deliver(RECEIVER, lambda _: None)) for _ in range(4)]

    def as_due(outcomes: list[Outcome]) -> str:
        due, told = [True] * 3 + [False], outcomes[0].returned
        return "" if told == due else f"of three events it returns {told}, due {due}"

    interleave(run, setup=events(*SOME), invariant=as_due)


def test_what_is_claimed_waits_with_the_links_next(interleave: Any) -> None:
    def setup() -> None:
        events(*SOME)()
        LinkEvent.objects.filter(id=1).update(not_before=FOREVER)

    interleave(worker(function), setup=setup, invariant=sends(3, rest=(1, 2)))


def test_a_claim_that_has_ended_is_none(interleave: Any) -> None:
    def setup() -> None:
        events(*SOME)()
        LinkEvent.objects.update(not_before=timezone.now() - HOUR)

    sends_one(interleave, setup=setup)


def test_a_receiver_that_refuses_is_told_again(interleave: Any) -> None:
    def fails(event: LinkEvent) -> None:
        raise ValueError("refused")

    def stays(outcomes: list[Outcome]) -> str:
        if not isinstance(outcomes[0].raised, ValueError):
            return f"send has raised, and process 1 is returned {outcomes[0].returned!r}"
        return "" if left() == [1, 2, 3] else f"send has raised, and {left()} are left"

    call = lambda: deliver(RECEIVER, fails)  # noqa: E731
    interleave(call, setup=events(*SOME), invariant=stays, expected=ValueError)


def test_two_deliver_at_once(interleave: Any) -> None:
    both = [worker(function), worker(function)]
    interleave(*both, setup=events(*EVENTS), invariant=all_are_sent)


def test_one_is_killed(interleave: Any) -> None:
    """Before the receiver has got the event."""
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
        judge.refuse(f"Threads deliver, and one is told {errors[0]!r}.")
    outcome = Outcome([(number, *event) for number, event in enumerate(sent)])
    if wrong := each_once_in_order([outcome], due):
        judge.refuse(f"Threads deliver: {wrong}.")
