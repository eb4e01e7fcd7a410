"""Write a correct `deliver`: `pytest lab/exercises/deliver.py` tests it.

`deliver` calls `send` with the oldest event that is due for a receiver, deletes the event, and
returns True. It returns False when no event is due, or others are sending what is.
`LinkEvent.objects.due()` returns the due events: the oldest event of each link, unless it is claimed
until a later `not_before`. When `send` raises an error, `deliver` raises it, and the event stays. A
process may be killed while it sends, so the event stays until it is sent, and a claim of it ends
within an hour.

It leaves the session as it was: settings, locks, connection. The caller gets every error of the
database, or another error with it as its cause. A call that tries again gives up after at most a
thousand attempts, and waits for others in the database alone.

The function below sends some events twice. Which other process has read the same event?
"""

import ast
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection
from django.utils import timezone
from hypothesis import strategies as st

from lab.exercises import judging as judge
from shorturl.models import LinkEvent, Subscription
from shorturl.strategies.delivering import update_skip_locked

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

NUMBER = "SELECT nextval(pg_get_serial_sequence('lab_notification', 'id'))"
HOUR = timedelta(hours=1)
SENT: list[tuple[int, str, int]] = []  # in at once: a number in the order of sending, key and id


@dataclass(frozen=True)
class Deliver(judge.Call):
    receiver: int = 1
    fails: str = ""

    def ask(self, function: Callable[..., Any], number: int, *, at_once: bool) -> str:
        sent = []

        def send(event: LinkEvent) -> None:
            """Send it; this is a statement, so that steps of others can come before and after it."""
            with connection.cursor() as cursor:
                cursor.execute(NUMBER)
                at = cursor.fetchone()[0]
            if not at_once:
                self._is_kept(event)
            judge.fail(self.fails)
            SENT.append((at, event.key, event.pk))
            sent.append(f"{event.pk} of {event.key}")

        told = bool(function(self.receiver, send))
        if not at_once:
            return f"sends {', '.join(sent) or 'nothing'}, and returns {told}"
        return "returns whether it sends" if told == bool(sent) else f"sends {sent}, returns {told}"

    def _is_kept(self, event: LinkEvent) -> None:
        with judge.another_session() as other:
            other.execute(
                "SELECT coalesce(not_before > now() + interval '1 hour', false)"
                " FROM shorturl_linkevent WHERE id = %s",
                [event.pk],
            )
            found = other.fetchone()
        if found != (False,):
            what = "is claimed for more than an hour" if found else "is not in the table"
            raise AssertionError(f"while it is sent, the event {event.pk} {what}")

    def turn(self, function: Callable[..., Any], number: int, turn: int) -> str:
        SENT.clear()
        told = judge.told(lambda: self.ask(function, number, at_once=True))
        return f"{SENT[0]}" if SENT and told == "returns whether it sends" else told

    def __str__(self) -> str:
        what = f"send that raises {self.fails}" if self.fails else "send"
        return f"deliver({self.receiver}, {what})"


@dataclass(frozen=True)
class Write:
    """An event that is committed now, and may have a smaller id than others."""

    pk: int
    key: str

    def __call__(self, function: Callable[..., Any], number: int, *, at_once: bool = False) -> str:
        LinkEvent.objects.create(pk=self.pk, key=self.key, subscription_id=1)
        return "is written"

    def __str__(self) -> str:
        return f"event {self.pk} of {self.key} is written"


def event(pk: int, keys: str = "abc") -> st.SearchStrategy[judge.Row]:
    claims = [None, None, timezone.now() - HOUR, timezone.now() + 24 * HOUR]
    return st.builds(
        lambda key, receiver, claim: judge.Row(
            LinkEvent,
            {"pk": pk, "key": key, "subscription_id": receiver, "not_before": claim},
        ),
        st.sampled_from(keys),
        st.sampled_from([1, 1, 1, 2]),
        st.sampled_from(claims),
    )


RECEIVERS = [judge.Row(Subscription, {"id": pk, "url": f"https://{pk}.example/"}) for pk in (1, 2)]


def events(*some: st.SearchStrategy[judge.Row]) -> st.SearchStrategy[Any]:
    return st.tuples(*map(st.just, RECEIVERS), *(st.none() | each for each in some))


def numbered(pk: int) -> judge.Row:
    return judge.Row(LinkEvent, {"pk": pk, "key": "abcdef"[pk % 6], "subscription_id": 1})


class TestDeliver(judge.Exercise):
    name, reference = "deliver", staticmethod(update_skip_locked.deliver)
    table, meant = "shorturl_linkevent", LinkEvent.DoesNotExist
    in_transactions = False
    # After a send that fails the event may be claimed or not.
    alone = st.builds(
        lambda rows, steps, last: judge.Scenario(rows, [*steps, *last]),
        events(*(event(pk) for pk in (10, 20, 30, 40, 50))),
        st.lists(
            st.builds(Deliver, receiver=st.sampled_from([1, 1, 2]))
            | st.builds(Write, st.sampled_from([5, 15, 25, 35, 60]), st.sampled_from("abc")),
            max_size=6,
            unique_by=lambda step: step.pk if isinstance(step, Write) else object(),
        ),
        st.just([]) | st.builds(lambda how: [Deliver(fails=how)], st.sampled_from(judge.FAILURES)),
    )
    ordinary = judge.Scenario([*RECEIVERS, numbered(1)], [Deliver()])
    meddling = "UPDATE shorturl_linkevent SET not_before = clock_timestamp() - interval '1 hour'"
    turns = 60
    rush = judge.Scenario(
        [
            *RECEIVERS,
            *map(numbered, range(1, 121)),
        ],
        [Deliver()] * 3,
    )

    @staticmethod
    def at_once(processes: int) -> st.SearchStrategy[judge.Scenario]:
        rows = events(*(event(pk, "aab") for pk in (10, 20, 30)))
        calls = st.just(Deliver())
        steps = st.tuples(*[calls] * (processes - 1), st.one_of(calls, calls, st.builds(Write, st.just(5), st.sampled_from("ab"))))
        return st.builds(judge.Scenario, rows, steps)

    def begin(self, scenario: judge.Scenario) -> None:
        super().begin(scenario)
        SENT.clear()

    def left(self, *, at_once: bool = False) -> judge.End:
        """Return the events; at once, send those that are due first, and return the order, too."""
        end: judge.End = in_order() if at_once else {}
        for row in LinkEvent.objects.values("pk", "key", "subscription_id", "data", "not_before"):
            soon = row["not_before"] is None or row["not_before"] < timezone.now() + HOUR
            row["not_before"] = "within an hour" if soon else row["not_before"]
            end[f"event {row['pk']}"] = row
        return end

    def _summary(self, told: list[list[str]]) -> judge.End:
        answers = sorted({*itertools.chain(*told)} - {"returns whether it sends", *judge.GAVE_UP})
        SENT[:] = [ast.literal_eval(each) for each in answers if each.startswith("(")]
        end = in_order() | {"events that are left": LinkEvent.objects.count()}
        return end | {each: "an answer" for each in answers if not each.startswith("(")}


def in_order() -> judge.End:
    """Send the events that are due still, and return in which order those of each link were sent."""
    known = -1
    while known < len(SENT):
        known = len(SENT)
        Deliver().ask(update_skip_locked.deliver, 0, at_once=True)
    keys = sorted({key for _, key, _ in SENT})
    return {f"what is sent of {each}": [pk for _, key, pk in sorted(SENT) if key == each] for each in keys}
