"""The races of the service's roll-ups: a page shows each visit once, whoever moves it meanwhile."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from functools import partial
from typing import Any
from unittest.mock import patch

from django.conf import settings
from django.db import connection
from django.db.models import Sum

from lab.races.idempotency import Killed
from lab.races.resolving import LONG_AGO
from lab.races.service.functions import row
from lab.races.service.race_definition import Process, Race, worst_case
from lab.races.visits import VISIT, hits_and_visits, no_visits
from pginterleave import Outcome
from shorturl import cluster, following
from shorturl.models import RecordedVisits, ShortUrl
from shorturl.models.hit_counts import ANY
from shorturl.strategies.table import Strategy, table
from shorturl.visits import compaction, recent, roll_up, statistics
from shorturl.visits.ranges import Range

OTHER = VISIT._replace(referrer="other.example", browser="Chrome")
SINCE, UNTIL = datetime(2022, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
ALL_TIMES = Range(SINCE.date(), date(2199, 12, 31))

STRATEGIES = table(
    row(recent.roll_up, "recent visits to their hours", name="recent"),
    row(cluster.roll_up, "hours to days", name="to_days"),
    row(compaction.move, "an hour's kinds to rows of one dimension each", name="compact"),
    row(compaction.move, "all but the devices of an hour to its day", name="downsample"),
    row(roll_up.roll_up_visits, "all of them, as manage.py roll_up does", name="roll_up_visits"),
)
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "recent": (),
    "to_days": ("h", "d", UNTIL),
    "compact": ("a", "h", "h", SINCE, UNTIL),
    "downsample": ("a", "h", "d", SINCE, UNTIL, "h"),
    "roll_up_visits": (UNTIL,),
}


@contextmanager
def of_small_batches() -> Iterator[None]:
    """Within the block, roll up recent visits one by one; two kinds of visits are a crowd."""
    with worst_case(), patch.object(recent, "BATCH", 1), patch.object(compaction, "CROWDED", 1):
        yield


def follow() -> ShortUrl:
    return following.follow("a", VISIT if settings.SHORTURL_VISITS else None)


def an_hour_and_recent_visits(strategy: Strategy) -> None:
    """Record two visits of the same kinds in the hour as are recent."""
    no_visits(strategy)
    for _ in "hour", "recent":
        recent.roll_up()
        for visit in (VISIT, OTHER):
            following.follow("a", visit)


def rolled_up(strategy: Strategy) -> Process:
    return partial(strategy.function, *ARGUMENTS[strategy.name])


def killed(process: Process) -> Process:
    """Return a process that is killed before its second statement."""
    sent = []

    def second(execute: Callable[..., Any], sql: Any, *rest: Any) -> Any:
        sent.append(sql)
        if len(sent) > 1:
            raise Killed
        return execute(sql, *rest)

    def run() -> None:
        sent.clear()
        with connection.execute_wrapper(second), suppress(Killed):
            process()

    return run


def read() -> statistics.Statistics:
    """Read what the page of the link shows, by the statement that reads the visits."""
    return statistics.read(ShortUrl(key="a", created_at=LONG_AGO), ALL_TIMES)


def shown_wrong(found: statistics.Statistics) -> str:
    shown = found.total.visits
    wrong = "" if shown == found.recorded == found.hits else f"hits = {found.hits}, visits {shown}"
    return wrong and f"{wrong}, {found.recorded} of all times"


def each_visit_is_shown_once(outcomes: list[Outcome], hits: int = 4) -> str:
    for outcome in outcomes:
        hits += isinstance(outcome.returned, ShortUrl)
        seen = outcome.returned
        if isinstance(seen, statistics.Statistics) and (wrong := shown_wrong(seen)):
            return f"a reader sees {wrong}"
    found = read()
    if wrong := shown_wrong(found):
        return wrong
    for dimension in statistics.Dimension:
        each_once = RecordedVisits.objects.exclude(**{dimension: ANY})
        if each_once.aggregate(visits=Sum("hits"))["visits"] != hits:
            return f"the visits by {dimension} are not {hits}"
    return "" if found.hits == hits else f"hits = {found.hits}, not {hits}"


_race = partial(
    Race,
    operation="service_roll_ups",
    strategies=STRATEGIES,
    signature=(
        "recent.roll_up() -> int, cluster.roll_up(unit: str | None, into: str, before: datetime) "
        "-> int, compaction.move(key: str, unit: str, into: str, since: datetime, until: datetime, "
        "devices: str) -> int, roll_up_visits(now: datetime) -> int"
    ),
    must_hold="Hits, shown visits and the visits by each dimension are the same number.",
    setup=an_hour_and_recent_visits,
    invariant=each_visit_is_shown_once,
    observe=hits_and_visits,
    around=of_small_batches,
)

RACES = (
    _race(
        name="rolled_up_beside_a_redirect",
        situation="A link is followed while the others roll its visits up.",
        story=(
            "A redirect inserts a row with its visit, in the statement that counts the hit. The "
            "roll-up takes the rows that it sees, and leaves the others to the next one."
        ),
        processes=lambda strategy, number: [follow] + [rolled_up(strategy)] * (number - 1),
    ),
    _race(
        name="rolled_up_twice",
        situation="Every process rolls up the visits of one link.",
        story=(
            "A roll-up takes longer than the interval of its timer, and a second one begins. "
            "Each skips the rows that the other one has locked, and adds to the same rows."
        ),
        strategies={n: one for n, one in STRATEGIES.items() if n != "roll_up_visits"},
        processes=lambda strategy, number: [rolled_up(strategy)] * number,
    ),
    _race(
        name="rolled_up_beside_recent",
        situation="Recent visits are added to an hour that the others roll up or compact.",
        story=(
            "The clock was set back, or a roll-up was late: one process adds visits to an hour "
            "whose rows another one is moving to the day, or to rows of one dimension each."
        ),
        strategies={
            n: one for n, one in STRATEGIES.items() if n not in ("recent", "roll_up_visits")
        },
        processes=lambda strategy, number: [recent.roll_up] + [rolled_up(strategy)] * (number - 1),
    ),
    _race(
        name="rolled_up_beside_a_reader",
        situation="The last process reads what the page of a link shows during the roll-ups.",
        story=(
            "Somebody opens the page of a link while its visits move from one table to the other, "
            "and from hours to days. One statement reads the view of both tables, and must not "
            "miss a visit that is on its way, nor see it twice."
        ),
        processes=lambda strategy, number: [rolled_up(strategy)] * (number - 1) + [read],
    ),
    _race(
        name="roll_up_killed",
        situation="The first process is killed between two batches; the others roll up, too.",
        story=(
            "A roll-up is killed by a deploy. What it has moved stays moved, and the next one "
            "moves the rest."
        ),
        strategies={n: STRATEGIES[n] for n in ("recent", "roll_up_visits")},
        processes=lambda strategy, number: (
            [killed(rolled_up(strategy))] + [rolled_up(strategy)] * (number - 1)
        ),
    ),
)
