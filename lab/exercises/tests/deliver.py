"""The tests of lab/exercises/deliver.py."""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from lab.exercises import deliver as exercise
from lab.exercises.tests import checking
from lab.models import Notification
from pginterleave.pytest_plugin import Interleave
from shorturl.models import LinkEvent, Subscription


def make_events(keys: str) -> dict[int, str]:
    """Make an event for each letter, which is the key of its link; return their ids and keys."""
    for model in (LinkEvent, Notification, Subscription):
        QuerySet(model).delete()
    Subscription.objects.create(id=1, url="https://receiver.example/", secret="secret")
    LinkEvent.objects.bulk_create(LinkEvent(subscription_id=1, key=key) for key in keys)
    return dict(LinkEvent.objects.order_by("id").values_list("id", "key"))


def send(event: LinkEvent) -> None:
    Notification.objects.create(text=str(event.pk))


def send_and_look(event: LinkEvent) -> None:
    """Send an event, and fail if another session does not see it in the table."""
    with closing(connection.copy("other")) as other, other.cursor() as cursor:
        cursor.execute("SELECT FROM shorturl_linkevent WHERE id = %s", [event.pk])
        mistake = "While the event is sent, it is not in the table. Right is: until it is sent."
        checking.require(cursor.rowcount, mistake)
    send(event)


def call(send: Callable[[LinkEvent], object] = send, receiver: int = 1) -> Any:
    return checking.outcome_of(partial(exercise.deliver, receiver, send))


def list_sent() -> list[int]:
    return [int(notification.text) for notification in Notification.objects.order_by("id")]


def describe_mistake(events: dict[int, str], outcomes: Any = ()) -> str:
    """Return what is wrong with the events that were sent, or with the outcomes of the calls."""
    sent = list_sent()
    left = [*LinkEvent.objects.values_list("id", flat=True)]
    returned = [outcome.returned for outcome in outcomes]
    if sorted(sent + left) != sorted(events):
        return f"Of {events} are sent: {sent}, and left: {left}. Right is each of them once."
    for link in events.values():
        sent_of_link = [pk for pk in sent if events[pk] == link]
        if sent_of_link != sorted(sent_of_link):
            return f"Of {events} {sent} are sent. Right is the order of a link's events."
    if outcomes and (not {*returned} <= {True, False} or returned.count(True) != len(sent)):
        return f"The calls return {returned} and send {sent}. Right is True for each sent."
    return "" if sent else "No event is sent. Right is one."


def test_calls_one_after_another(interleave: Interleave) -> None:
    events = make_events("aab")
    end: Any = [call(send_and_look) for _ in range(4)], list_sent(), LinkEvent.objects.count()
    right: Any = [True, True, True, False], [*events], 0
    checking.require(end == right, f"Four calls end with {end}. Right is {right}.")
    make_events("a")
    end = call(lambda event: 1 / 0), LinkEvent.objects.count(), call(receiver=2)
    right = checking.Raised("ZeroDivisionError"), 1, False
    text = f"With a send that fails, the events left, and without events it is {end}."
    checking.require(end == right, f"{text} Right is {right}.")


def test_calls_at_once(interleave: Interleave) -> None:
    for keys, processes in (("a", 2), ("aa", 2), ("ab", 2), ("aab", 2), ("ab", 3)):
        invariant = partial(describe_mistake, make_events(keys))
        checking.explore([call] * processes, invariant, interleave)
    events = make_events("abc" * 10)
    checking.repeat_in_threads(call, times=40)
    mistake = describe_mistake(events)
    checking.require(not mistake, mistake)
