"""The races of the service's events: each reaches its receiver once, in order, or still waits."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from unittest.mock import patch

from django.db import connection

from lab.races.creating import no_links
from lab.races.creating import set_next_id as next_id
from lab.races.delivering import EVENTS, NUMBER, RECEIVER, Sent
from lab.races.delivering import waiting_events as waiting
from lab.races.idempotency import Killed
from lab.races.resolving import EXPIRED, LONG_AGO, NEW, OLD
from lab.races.service.former import each_once_in_order, only
from lab.races.service.functions import row
from lab.races.service.race_definition import Process, Race, worst_case
from pginterleave import Outcome
from shorturl import operations
from shorturl.events import delivering
from shorturl.events.subscribing import subscribe, unsubscribe
from shorturl.models import LinkEvent, ShortUrl, Subscription
from shorturl.strategies.table import Strategy, table

URL = "https://receiver.example/"
LATER = datetime(2200, 1, 1, tzinfo=UTC)
FAILED_BEFORE = 10  # attempts: the pause after the next one is longer than an exploration
ONCE = ["link.created", "link.expired"]

STRATEGIES = table(
    row(delivering.deliver_next, "claim an event, send it, and delete or postpone it"),
    row(delivering.tell_expiries, "one statement for all links, which skips locked ones"),
)
DELIVERING = {"deliver_next": STRATEGIES["deliver_next"]}
TELLING = {"tell_expiries": STRATEGIES["tell_expiries"]}


class Sending(threading.local):  # each process has a thread
    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.error: type[Exception] | None = None


here = Sending()


def tell(receiver: Subscription, event: LinkEvent) -> None:
    """Note the event with a number in the order of all, or raise the error of the process."""
    if here.error:
        raise here.error
    with connection.cursor() as cursor:
        cursor.execute(NUMBER)
        here.sent.append((cursor.fetchone()[0], event.pk, event.key))


@contextmanager
def without_network() -> Iterator[None]:
    """Within the block, tell() stands for a request; afterwards, nobody is told of changes."""
    with (
        worst_case(),
        patch.object(delivering, "tell", tell),
        patch.object(delivering.logger, "disabled", new=True),
    ):
        try:
            yield
        finally:
            unsubscribe(URL)


def deliver(strategy: Strategy, *, times: int = 1, error: type[Exception] | None = None) -> Process:
    """Return a process that delivers `times` and returns what was sent; an error ends it."""

    def run() -> list[Sent]:
        here.sent, here.error = [], error
        with suppress(Killed):
            for _ in range(times):
                strategy.function(Subscription(pk=RECEIVER, url=URL))
        return here.sent

    return run


def two_events(strategy: Strategy) -> None:
    only(*EVENTS)
    LinkEvent.objects.update(attempts=FAILED_BEFORE)


def a_new_link(strategy: Strategy, expires_at: datetime | None = None) -> None:
    """Subscribe, and create a link, whose event waits."""
    Subscription.objects.all().delete()
    no_links(strategy)
    next_id(1, Subscription)
    next_id(1, LinkEvent)
    subscribe(URL)
    Subscription.objects.update(created_at=LONG_AGO)
    operations.create(OLD, key="a", expires_at=expires_at)


def edit() -> bool:
    return operations.change(ShortUrl.objects.filter(key="a"), target_url=NEW)


def put_off() -> bool:
    return operations.change(ShortUrl.objects.filter(key="a"), expires_at=LATER)


def types() -> list[str]:
    return list(LinkEvent.objects.order_by("id").values_list("type", flat=True))


def nothing_is_left(outcomes: list[Outcome]) -> str:
    deliveries, removal = outcomes[:-1], outcomes[-1]
    if not removal.returned or Subscription.objects.exists() or types():
        return f"events wait for a receiver that is removed: {types()}"
    times = sum(len(one.returned) for one in deliveries)
    return "" if times <= 1 else f"the event was sent {times} times"


def told_once(outcomes: list[Outcome]) -> str:
    return "" if types() == ONCE else f"the events are {types()}"


def told_before_the_edit_or_not(outcomes: list[Outcome]) -> str:
    edited = "link.edited"
    return "" if types() in ([ONCE[0], edited], [*ONCE, edited]) else f"the events are {types()}"


_race = partial(
    Race,
    operation="service_events",
    signature="deliver_next(receiver: Subscription) -> bool, tell_expiries() -> int",
    strategies=DELIVERING,
    setup=two_events,
    observe=waiting,
    around=without_network,
    invariant=each_once_in_order,
    must_hold="Each event is sent once or still waits, and events are sent in order.",
)
_expiry = partial(
    _race,
    strategies=TELLING,
    setup=partial(a_new_link, expires_at=EXPIRED),
)

RACES = (
    _race(
        name="deliveries_at_once",
        situation="Every process delivers to one receiver, for which two events of a link wait.",
        story=(
            "Two hosts run manage.py deliver. The event that one has claimed is not the other's, "
            "and the link's next event is not due while it waits."
        ),
        processes=lambda strategy, number: [deliver(strategy)] * number,
    ),
    _race(
        name="delivery_that_fails",
        situation="The first process cannot reach the receiver; the others continue.",
        story=(
            "A receiver does not answer. The event is postponed, and with it the link's next "
            "event, whoever looks for one meanwhile."
        ),
        processes=lambda strategy, number: (
            [deliver(strategy, error=delivering.NotDelivered)] + [deliver(strategy)] * (number - 1)
        ),
    ),
    _race(
        name="delivery_killed",
        situation="The first process is killed after its claim; the others continue.",
        story=(
            "A deploy ends a deliverer that has claimed an event. The claim ends by the clock, "
            "and until then the event and the link's next one wait."
        ),
        processes=lambda strategy, number: (
            [deliver(strategy, error=Killed)] + [deliver(strategy)] * (number - 1)
        ),
    ),
    _race(
        name="delivery_beside_a_change",
        situation="A link is edited while the others deliver the event of its creation.",
        story=(
            "A trigger writes the event of an edit in the edit's transaction. The deliverer may "
            "look for events before, during and after it."
        ),
        setup=a_new_link,
        processes=lambda strategy, number: [edit] + [deliver(strategy, times=2)] * (number - 1),
        invariant=lambda outcomes: each_once_in_order(outcomes[1:]),
    ),
    _race(
        name="delivery_beside_unsubscribe",
        situation="The last process removes the receiver to which the others deliver.",
        must_hold="The event is sent at most once, and no event waits for nobody.",
        story=(
            "A receiver is removed with its events, and the triggers with the last receiver. A "
            "deliverer may have claimed one of the events."
        ),
        setup=a_new_link,
        processes=lambda strategy, number: (
            [deliver(strategy)] * (number - 1) + [partial(unsubscribe, URL)]
        ),
        invariant=nothing_is_left,
    ),
    _expiry(
        name="expiries_told_at_once",
        situation="Every process tells of the links that have expired.",
        must_hold="The expiry has one event.",
        story="Two hosts run manage.py deliver, and both look for links that have expired.",
        processes=lambda strategy, number: [strategy.function] * number,
        invariant=told_once,
    ),
    _expiry(
        name="expiry_beside_an_edit",
        situation="The expiry of a link is put off while the others tell of it.",
        must_hold="The expiry has one event before that of the edit, or none.",
        story=(
            "A campaign is extended just as it ends. The statement checks the expiry on the "
            "newest version of the row, so nobody is told of an end that was put off."
        ),
        processes=lambda strategy, number: [put_off] + [strategy.function] * (number - 1),
        invariant=told_before_the_edit_or_not,
    ),
)
