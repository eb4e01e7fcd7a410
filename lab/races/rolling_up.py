"""The races of the roll-up: visits are recorded, or rolled up again, during a roll-up."""

from datetime import UTC, datetime
from functools import partial

from django.db import transaction

from lab.races.creating import set_next_id
from lab.races.race import Race
from lab.races.visits import VISIT, counts, disagreement, no_visits
from pginterleave import Outcome
from shorturl.models import ShortUrl, Visit, VisitCount
from shorturl.strategies.recording_visits import upsert
from shorturl.strategies.table import STRATEGIES, Strategy

FOREVER = datetime(9999, 1, 1, tzinfo=UTC)
LARGE = 100  # an id
OTHER = VISIT._replace(browser="Chrome")


def record(visit: Visit = VISIT) -> ShortUrl:
    return upsert.record("a", visit)


def record_another_kind_in_a_transaction() -> ShortUrl:
    with transaction.atomic():
        return record(OTHER)


def an_hour_with_a_visit(strategy: Strategy) -> None:
    no_visits(strategy)
    record()


def an_hour_with_a_larger_id(strategy: Strategy) -> None:
    """Record a visit in a row with a larger id than that of the next row."""
    no_visits(strategy)
    set_next_id(LARGE, VisitCount)
    record()
    set_next_id(1, VisitCount)


def hours_to_days(strategy: Strategy, process: int) -> object:
    return strategy.function("h", "d", FOREVER)


def sums_agree(outcomes: list[Outcome]) -> str:
    """Compare the visits with the counter, which no roll-up touches."""
    return disagreement(counts())


def rows() -> str:
    found = VisitCount.objects.order_by("unit", "id").values_list("unit", "hits")
    names = {"h": "hour", "d": "day"}
    return ", ".join(f"{names[unit]}: {hits}" for unit, hits in found) or "no visits"


_race = partial(
    Race,
    operation="rolling_up",
    strategies=STRATEGIES["rolling_up"],
    invariant="The sum of the visits equals the counter.",
    setup=an_hour_with_a_visit,
    process=hours_to_days,
    check=sums_agree,
    rows=rows,
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
        first=record,
    ),
    _race(
        name="two_roll_ups",
        situation="Every process rolls up the same hour.",
        story=(
            "A roll-up takes longer than the interval of its timer, and a second one begins. Both "
            "read the same rows, and both add them to the day."
        ),
    ),
    _race(
        name="late_commit",
        situation=(
            "A visit of another kind is committed in an hour whose row has a larger id; the other "
            "processes roll the hour up."
        ),
        story=(
            "Rows get their ids in order, and can be committed in any order. A long transaction "
            "has a small id, and no other process sees its row before the COMMIT. A roll-up that "
            "adds up all rows up to the largest id in one statement and deletes them in another "
            "can delete a row that it has not added."
        ),
        setup=an_hour_with_a_larger_id,
        first=record_another_kind_in_a_transaction,
    ),
)
