"""Write a correct `deliver`: `pytest lab/exercises/deliver.py` tests it.

`deliver` calls `send` with the oldest event that is due for a receiver, deletes the event, and
returns True. It returns False only when no event is due, or others are sending all that are. The
events of `LinkEvent.objects.due()` are due: the oldest event of each link, unless it is claimed
until a later `not_before`. When `send` raises an error, `deliver` raises it, and the event stays. A
process may be killed while it sends: the event stays until then, and its claim ends in an hour.

Calls at once end as calls one after another do. It leaves the session as it was: settings, locks,
connection. Its caller gets every error of the database, or another error with it as the cause. It
gives up after a thousand attempts at the latest, and waits for others in the database alone.

The function below sends some events twice. Which other process has read the same event?
"""

import ast
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.utils import timezone
from hypothesis import strategies as st

from lab.exercises import judging, scenarios
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
CLAIM = "SELECT not_before > now() + interval '1 hour' FROM shorturl_linkevent WHERE id = %s"
HOUR = timedelta(hours=1)
SENT: list[tuple[int, str, int]] = []  # a number in the order of sending, the key, the event


@dataclass(frozen=True)
class Deliver(scenarios.Call):
    name = "deliver"
    receiver: int = 1
    fails: str = ""

    def ask(self, function: Callable[..., Any], number: int, *, at_once: bool) -> str:
        sent = []

        def send(event: LinkEvent) -> None:
            """Draw a number, in a statement: steps of others can come before and after it."""
            with connection.cursor() as cursor:
                cursor.execute(NUMBER)
                at = cursor.fetchone()[0]
            if not at_once:
                self._is_kept(event)
            scenarios.fail(self.fails)
            SENT.append((at, event.key, event.pk))
            sent.append(event.pk)

        told = bool(function(self.receiver, send))
        if at_once and told == bool(sent):
            return "returns whether it sends"
        return f"sends {sent or 'nothing'}, and returns {told}"

    def _is_kept(self, event: LinkEvent) -> None:
        with judging.another_session() as other:
            other.execute(CLAIM, [event.pk])
            found = other.fetchone()
        if not found or found[0]:
            what = "is claimed for more than an hour" if found else "is not in the table"
            raise AssertionError(f"while it is sent, the event {event.pk} {what}")

    def turn(self, function: Callable[..., Any], number: int, turn: int) -> str:
        SENT.clear()
        told = scenarios.told(lambda: self.ask(function, number, at_once=True))
        return f"{SENT[0]}" if SENT and told == "returns whether it sends" else told


def event(
    pk: int, key: str, receiver: int = 1, claim: datetime | None = None, attempts: int = 0
) -> scenarios.Row:
    own = {"pk": pk, "key": key, "subscription_id": receiver}
    fields = own | {"not_before": claim, "attempts": attempts}
    return scenarios.Row(LinkEvent, fields)


def events(pks: list[int], keys: str) -> st.SearchStrategy[Any]:
    claims = st.sampled_from([None, None, timezone.now() - HOUR, timezone.now() + 24 * HOUR])
    others = st.sampled_from([1, 1, 1, 2]), claims, st.sampled_from([0, 0, 3])
    some = (st.builds(event, st.just(pk), st.sampled_from(keys), *others) for pk in pks)
    return st.tuples(*map(st.just, RECEIVERS), *(st.none() | each for each in some))


RECEIVERS = [
    scenarios.Row(Subscription, {"id": pk, "url": f"https://{pk}.example/"}) for pk in (1, 2)
]


class TestDeliver(judging.Exercise):
    name, reference = "deliver", staticmethod(update_skip_locked.deliver)
    table, meant = "shorturl_linkevent", LinkEvent.DoesNotExist
    # An event may be committed late, with a smaller id than others.
    late = st.builds(event, st.sampled_from([5, 15, 25, 35, 60]), st.sampled_from("abc"))
    # After a send that fails the event may be claimed or not, so no call comes after it.
    last = st.sampled_from([[], *([Deliver(fails=each)] for each in scenarios.FAILURES[:2])])
    alone = st.builds(
        lambda rows, steps, last: scenarios.Scenario(rows, [*steps, *last]),
        events([10, 20, 30, 40, 50], "abc"),
        st.lists(st.builds(Deliver, receiver=st.sampled_from([1, 1, 2])) | late, max_size=6),
        last,
    )
    ordinary = scenarios.Scenario([*RECEIVERS, event(1, "a")], [Deliver()])
    meddling = "UPDATE shorturl_linkevent SET not_before = clock_timestamp() - interval '1 hour'"
    turns = 60
    due = 0  # links that have an event that is due at first
    rush = scenarios.Scenario(
        [*RECEIVERS, *map(event, range(1, 121), "abcdef" * 20)], [Deliver()] * 3
    )

    @staticmethod
    def at_once(processes: int) -> st.SearchStrategy[scenarios.Scenario]:
        last = st.sampled_from([Deliver(), Deliver(), event(5, "a"), event(5, "b")])
        steps = st.tuples(*[st.just(Deliver())] * (processes - 1), last)
        first = st.just((event(1, "a"),)) | st.just(())
        rows = st.builds(tuple.__add__, events([10, 20, 30], "aab"), first)
        return st.builds(scenarios.Scenario, rows, steps)

    def begin(self, scenario: scenarios.Scenario, function: Any = None) -> None:
        super().begin(scenario, function)
        self.due = LinkEvent.objects.due(1).count()
        SENT.clear()

    def left(self, *, at_once: bool = False) -> scenarios.End:
        """Return the events; at once, send what is due first, and return each link's order, too."""
        known, end = -1 if at_once else len(SENT), scenarios.End()
        if at_once:  # a call may send nothing while others send what is due
            end["the number of calls that send"] = min(len(SENT), self.due)
        while known < len(SENT):
            known = len(SENT)
            Deliver().ask(update_skip_locked.deliver, 0, at_once=True)
        for _, key, pk in sorted(SENT) if at_once else []:
            end[f"what is sent of {key}"] = f"{end.get(f'what is sent of {key}', '')} {pk}"
        for each in LinkEvent.objects.all():
            soon = each.not_before is None or each.not_before < timezone.now() + HOUR
            until = "due within an hour" if soon else each.not_before
            end[f"event {each.pk}"] = (each.key, each.subscription_id, each.data, until)
        return end

    def summary(self, told: list[list[str]]) -> scenarios.End:
        answers = [each for each in {*itertools.chain(*told)} if not self.gives_up(each)]
        SENT[:] = [ast.literal_eval(each) for each in answers if each.startswith("(")]
        known = ("(", "returns whether it sends")
        wrong = {f"the answer {each}": "given" for each in answers if not each.startswith(known)}
        return self.left(at_once=True) | wrong
