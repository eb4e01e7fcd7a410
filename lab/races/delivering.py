"""The races of delivery: two workers, a worker that is killed, and an event committed late."""

from contextlib import suppress
from functools import partial

from django.db import connection, transaction

from lab.races.creating import set_next_id
from lab.races.idempotency import Killed
from lab.races.race import Race
from pginterleave import Outcome
from shorturl.models import LinkEvent, Subscription
from shorturl.strategies.table import STRATEGIES, Strategy

RECEIVER = 1
# The keys of the links of events, by the events' ids.
KEYS = {1: "a", 2: "a"}
EARLY_KEYS = {100: "b"}
LATE_KEYS = {1: "a"}  # this event is committed later, and has a smaller id
DRAW_NUMBER = "SELECT nextval(pg_get_serial_sequence('shorturl_subscription', 'id'))"
Sent = dict[int, int]  # the ids of events, by numbers in the order in which they were sent


def make_events(strategy: Strategy, keys: dict[int, str]) -> None:
    """Replace all events by events of the receiver, given by their ids and the keys of links."""
    LinkEvent.objects.all().delete()
    Subscription.objects.get_or_create(id=RECEIVER, url="https://receiver.example/")
    set_next_id(1, LinkEvent)
    set_next_id(1, Subscription)
    LinkEvent.objects.bulk_create(
        LinkEvent(id=pk, key=key, subscription_id=RECEIVER) for pk, key in keys.items()
    )


def write_late_event() -> Sent:
    """Write an event with a smaller id than the one that is there already; send none."""
    with transaction.atomic():
        LinkEvent.objects.create(key="a", subscription_id=RECEIVER)
    return {}


def deliver(strategy: Strategy, process: int, *, killed: bool = False) -> Sent:
    """Deliver once, and return what was sent. A process that is `killed` sends nothing.

    To send an event is to draw a number from a sequence: a step of its own among the steps of the
    other processes, which a rollback does not undo.
    """
    sent: Sent = {}

    def send(event: LinkEvent) -> None:
        if killed:
            raise Killed
        with connection.cursor() as cursor:
            cursor.execute(DRAW_NUMBER)
            (number,) = cursor.fetchone()
        sent[number] = event.pk

    with suppress(Killed):
        strategy.function(RECEIVER, send)
    return sent


def deliver_with_process_1_killed(strategy: Strategy, process: int) -> Sent:
    """Deliver once; process 1 is killed before it sends."""
    return deliver(strategy, process, killed=process == 1)


def check_sent_once_in_order(outcomes: list[Outcome], keys: dict[int, str] = KEYS) -> str:
    """Return a violation, or "" if each event is sent once or waits, and a link's are in order."""
    sent: Sent = {}
    for outcome in outcomes:
        sent |= outcome.returned
    order = [sent[number] for number in sorted(sent)]
    waiting = LinkEvent.objects.order_by("id").exclude(id__in=order)
    order += waiting.values_list("id", flat=True)
    for pk, key in keys.items():
        times = order.count(pk)
        if times == 0:
            return f"event {pk} is lost"
        if times > 1:
            return f"event {pk} of {key} was sent {times} times"
    for key in sorted(set(keys.values())):
        order_of_link = [pk for pk in order if keys[pk] == key]
        if order_of_link != sorted(order_of_link):
            return f"the events of {key} are sent in the order {order_of_link}"
    return ""


def describe_events() -> str:
    events = LinkEvent.objects.order_by("id").values_list("id", "key", "not_before")
    rows = [f"{pk} of {key}{', claimed' if until else ''}" for pk, key, until in events]
    return "; ".join(rows) or "no events"


_race = partial(
    Race,
    operation="delivering",
    strategies=STRATEGIES["delivering"],
    setup=partial(make_events, keys=KEYS),
    process=deliver,
    check=check_sent_once_in_order,
    rows=describe_events,
)

RACES = (
    _race(
        name="two_workers",
        situation="Every process delivers to one receiver, for which two events of a link wait.",
        invariant="Each event is sent once or still waits, and events are sent in order.",
        story=(
            "A receiver is slow, so a second worker helps the first one. Both look for the oldest "
            "event, and they must not both send it. While one worker sends the first event of a "
            "link, the other must not send the second: the receiver would learn of the change "
            "before it learns of the link."
        ),
    ),
    _race(
        name="killed_while_delivering",
        situation="The first process is killed just before it sends; the others continue.",
        invariant="Each event is sent once or still waits, and events are sent in order.",
        story=(
            "A worker has taken an event, and is killed before it has sent it: a deploy, a full "
            "memory, a machine that is switched off. PostgreSQL undoes what is not committed. What "
            "is committed by then must not say that the event is done."
        ),
        process=deliver_with_process_1_killed,
    ),
    _race(
        name="late_event",
        situation="An event is committed after another link's event that has a larger id.",
        invariant="Each event is sent once or still waits.",
        story=(
            "Events get their ids in order, and can be committed in any order. A long transaction "
            "has a small id, and no other process sees its event before the COMMIT. A worker that "
            "marks all ids up to the largest as done also marks an event that it has not seen. "
            "Events of one link are committed in the order of their ids, because each change of a "
            "link waits for its row."
        ),
        setup=partial(make_events, keys=EARLY_KEYS),
        first=write_late_event,
        check=partial(check_sent_once_in_order, keys=LATE_KEYS | EARLY_KEYS),
    ),
)
