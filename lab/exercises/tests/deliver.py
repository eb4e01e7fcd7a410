"""The tests of lab/exercises/deliver.py."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from django.db import connection

from lab.exercises import deliver as exercise
from lab.exercises.tests import checking
from lab.models import Notification
from pginterleave.pytest_plugin import Interleave
from shorturl.models import LinkEvent, Subscription

RECEIVER = 1


def make_events(keys: str) -> None:
    """Make an event for each letter, which is the key of its link."""
    checking.delete_rows(LinkEvent, Notification, Subscription)
    Subscription.objects.create(id=RECEIVER, url="https://receiver.example/", secret="secret")
    for number, key in enumerate(keys):
        LinkEvent.objects.create(
            subscription_id=RECEIVER,
            key=key,
            type="link.edited",
            data={"name": f"{key}{number:02}"},
        )


def send(event: LinkEvent) -> None:
    Notification.objects.create(text=event.data["name"])


def send_and_look(event: LinkEvent) -> None:
    """Send an event, and fail if another session does not see it in the table."""
    other = connection.copy("other")
    with other.cursor() as cursor:
        cursor.execute("SELECT FROM shorturl_linkevent WHERE id = %s", [event.pk])
        kept = cursor.rowcount == 1
    other.close()
    checking.fail_unless(
        kept, "While the event is sent, it is not in the table. Right is: until it is sent."
    )
    send(event)


def refuse(event: LinkEvent) -> None:
    raise ValueError


def sent() -> list[str]:
    return [*Notification.objects.order_by("id").values_list("text", flat=True)]


def describe_mistake(names: Sequence[str], at_once: bool = True) -> str:
    """Return what is wrong with the order in which events were sent, or an empty text."""
    left = LinkEvent.objects.values_list("data__name", flat=True)
    if sorted([*sent(), *left]) != sorted(names):
        return f"Of {names} are sent: {sent()}, and left: {[*left]}. Right is each of them once."
    for key in {name[0] for name in names}:
        of_key = [name for name in sent() if name[0] == key]
        if of_key != sorted(of_key):
            return f"{of_key} are sent in this order. Right is the order of a link's events."
    return ""


def test_calls_one_after_another(interleave: Interleave) -> None:
    make_events("aab")
    returned = [
        checking.outcome_of(partial(exercise.deliver, RECEIVER, send_and_look)) for _ in range(4)
    ]
    end: Any = (returned, sent(), LinkEvent.objects.count())
    right = ([True, True, True, False], ["a00", "a01", "b02"], 0)
    checking.fail_unless(
        end == right, f"Four calls for a00, a01, b02: the end is {end}. Right is {right}."
    )
    make_events("a")
    end = (
        checking.outcome_of(partial(exercise.deliver, RECEIVER, refuse)),
        LinkEvent.objects.count(),
    )
    text = (
        "A call whose send raises ValueError: it {} and leaves {} events. Right is to raise, and 1."
    )
    checking.fail_unless(end == ("raises ValueError", 1), text.format(*end))
    other = checking.outcome_of(partial(exercise.deliver, RECEIVER + 1, send))
    checking.fail_unless(
        other is False, f"For a receiver without events the end is {other}. Right is False."
    )


def test_two_and_three_processes(interleave: Interleave) -> None:
    for keys, processes in (("a", 2), ("aa", 2), ("ab", 2), ("aab", 2), ("ab", 3)):
        make_events(keys)
        names = [f"{key}{number:02}" for number, key in enumerate(keys)]

        def invariant(outcomes: Sequence[Any], names: Sequence[str] = tuple(names)) -> str:
            returned = [outcome.returned for outcome in outcomes]
            if not {*returned} <= {True, False} or returned.count(True) != len(sent()):
                return (
                    f"The calls return {returned} and send {sent()}. Right is True for each sent."
                )
            return describe_mistake(names) or ("" if sent() else "No event is sent. Right is one.")

        checking.explore(
            interleave, [partial(exercise.deliver, RECEIVER, send)] * processes, invariant
        )


def test_in_threads(interleave: Interleave) -> None:
    make_events("abc" * 10)
    names = [*LinkEvent.objects.order_by("id").values_list("data__name", flat=True)]
    checking.run_in_threads(partial(exercise.deliver, RECEIVER, send))
    checking.fail_unless(not describe_mistake(names), describe_mistake(names))
