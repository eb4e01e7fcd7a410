"""The races of the roll-up: visits are recorded, or rolled up again, during a roll-up."""

from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.db import transaction

from lab.races.creating_races import next_id
from lab.races.race_definition import Process, Race
from lab.races.visit_races import VISIT, counts, disagreement, no_visits
from shorturl.models import ShortUrl, VisitCount
from shorturl.strategies.recording_visits import table as recording_visits
from shorturl.strategies.rolling_up import table as rolling_up
from shorturl.strategies.strategy import Strategy

FOREVER = datetime(9999, 1, 1, tzinfo=UTC)
LARGE = 100  # an id


def record(by: str) -> ShortUrl:
    function = recording_visits.STRATEGIES[by].function
    short_url: ShortUrl = function("a", VISIT)
    return short_url


def record_in_a_transaction(by: str) -> ShortUrl:
    with transaction.atomic():
        return record(by)


def an_hour_with_a_visit(strategy: Strategy[Any]) -> None:
    no_visits(strategy)
    record("upsert")


def a_single_visit_with_a_larger_id(strategy: Strategy[Any]) -> None:
    """Record a visit with a larger id than the visit that is recorded next."""
    no_visits(strategy)
    next_id(LARGE, VisitCount)
    record("append_only")
    next_id(1, VisitCount)


def hours_to_days(strategy: Strategy[Any]) -> Process:
    return partial(strategy.function, "h", "d", FOREVER)


def rows() -> str:
    found = VisitCount.objects.order_by("unit", "id").values_list("unit", "hits")
    names = {None: "single", "h": "hour", "d": "day"}
    return ", ".join(f"{names[unit]}: {hits}" for unit, hits in found) or "no visits"


_race = partial(
    Race,
    operation="rolling_up",
    strategies=rolling_up.STRATEGIES,
    signature="roll_up(unit: str | None, into: str, before: datetime) -> int",
    must_hold="The sum of the visits equals the counter.",
    setup=an_hour_with_a_visit,
    invariant=lambda outcomes: disagreement(counts()),  # no roll-up touches the counter
    observe=rows,
)

RACES = (
    _race(
        name="visit_meanwhile",
        situation="A visit is recorded in an hour that the other processes roll up into its day.",
        story=(
            "The visits of an old hour are added to those of its day, and the hour's row is "
            "deleted. A visit of that hour can be recorded between the two, when the clock was set "
            "back or when no hours are kept. It is deleted with the row."
        ),
        processes=lambda strategy, number: (
            [partial(record, "upsert")] + [hours_to_days(strategy)] * (number - 1)
        ),
    ),
    _race(
        name="two_roll_ups",
        situation="Every process rolls up the same hour.",
        story=(
            "A roll-up takes longer than the interval of its timer, and a second one begins. Both "
            "read the same rows, and both add them to the day."
        ),
        processes=lambda strategy, number: [hours_to_days(strategy)] * number,
    ),
    _race(
        name="late_commit",
        situation="A single visit is committed after one that has a larger id.",
        story=(
            "Rows get their ids in order, and can be committed in any order. A long transaction "
            "has a small id, and no other process sees its row before the COMMIT. A roll-up that "
            "adds up all rows up to the largest id in one statement and deletes them in another "
            "can delete a row that it has not added."
        ),
        setup=a_single_visit_with_a_larger_id,
        processes=lambda strategy, number: (
            [partial(record_in_a_transaction, "append_only")]
            + [partial(strategy.function, None, "h", FOREVER)] * (number - 1)
        ),
    ),
)
