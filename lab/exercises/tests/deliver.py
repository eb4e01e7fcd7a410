"""The tests of lab/exercises/deliver.py."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django.db import connection

from lab.exercises import deliver as exercise
from lab.exercises.tests import checking
from lab.models import Notification
from pginterleave.pytest_plugin import Interleave
from shorturl.models import LinkEvent, Subscription

RECEIVER = 1


def make_events(keys: str) -> list[str]:
    """Make an event for each letter, which is the key of its link; return their names."""
    checking.delete_rows(LinkEvent, Notification, Subscription)
    Subscription.objects.create(id=RECEIVER, url="https://receiver.example/", secret="secret")
    names = [f"{key}{number}" for number, key in enumerate(keys)]
    for name in names:
        event = LinkEvent(subscription_id=RECEIVER, key=name[0], type="link.edited")
        event.data = {"name": name}
        event.save()
    return names


def send(event: LinkEvent) -> None:
    Notification.objects.create(text=event.data["name"])


def send_and_look(event: LinkEvent) -> None:
    """Send an event, and fail if another session does not see it in the table."""
    other = connection.copy("other")
    with other.cursor() as cursor:
        cursor.execute("SELECT FROM shorturl_linkevent WHERE id = %s", [event.pk])
        is_there = cursor.rowcount == 1
    other.close()
    text = "While the event is sent, it is not in the table. Right is: until it is sent."
    checking.fail_unless(is_there, text)
    send(event)


def refuse(event: LinkEvent) -> None:
    raise ValueError


def call(send: Callable[[LinkEvent], None] = send, receiver: int = RECEIVER) -> Any:
    return checking.outcome_of(partial(exercise.deliver, receiver, send))


def sent() -> list[str]:
    return [*Notification.objects.order_by("id").values_list("text", flat=True)]


def describe_mistake(names: Sequence[str]) -> str:
    """Return what is wrong with the events that were sent, or an empty text."""
    left = [*LinkEvent.objects.values_list("data__name", flat=True)]
    if sorted([*sent(), *left]) != sorted(names):
        return f"Of {names} are sent: {sent()}, and left: {left}. Right is each of them once."
    for key in {name[0] for name in names}:
        of_link = [name for name in sent() if name[0] == key]
        if of_link != [name for name in names if name in of_link]:
            return f"{of_link} are sent in this order. Right is the order of a link's events."
    return ""


def describe_wrong_end(names: Sequence[str], outcomes: Sequence[Any]) -> str:
    returned = [outcome.returned for outcome in outcomes]
    if not {*returned} <= {True, False} or returned.count(True) != len(sent()):
        return f"The calls return {returned} and send {sent()}. Right is True for each sent."
    return describe_mistake(names) or ("" if sent() else "No event is sent. Right is one.")


def test_calls_one_after_another(interleave: Interleave) -> None:
    names = make_events("aab")
    end: Any = [call(send_and_look) for _ in range(4)], sent(), LinkEvent.objects.count()
    checking.compare(end, ([True, True, True, False], names, 0), f"Four calls for {names}")
    make_events("a")
    end = call(refuse), LinkEvent.objects.count()
    checking.compare(end, ("raises ValueError", 1), "A call whose send fails, and the events left")
    checking.compare(call(receiver=RECEIVER + 1), False, "A call for a receiver without events")


def test_two_and_three_processes(interleave: Interleave) -> None:
    for keys, processes in (("a", 2), ("aa", 2), ("ab", 2), ("aab", 2), ("ab", 3)):
        invariant = partial(describe_wrong_end, make_events(keys))
        checking.explore(interleave, [call] * processes, invariant)


def test_in_threads(interleave: Interleave) -> None:
    names = make_events("abc" * 10)
    checking.run_in_threads(call, times=40)
    mistake = describe_mistake(names)
    checking.fail_unless(not mistake, mistake)
