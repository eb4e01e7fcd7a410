"""The races of the roll-up: visits are recorded, or rolled up again, during a roll-up."""

from functools import partial

from lab.races.race import Race
from lab.races.visits import VISIT, counts, disagreement, no_visits
from pginterleave import Outcome
from shorturl.models import HourlyVisits, RecentVisits, ShortUrl
from shorturl.strategies.recording_visits import combined
from shorturl.strategies.table import STRATEGIES, Strategy


def record() -> ShortUrl:
    return combined.record("a", VISIT)


def a_recent_visit(strategy: Strategy) -> None:
    no_visits(strategy)
    record()


def roll_up(strategy: Strategy, process: int) -> object:
    return strategy.function()


def sums_agree(outcomes: list[Outcome]) -> str:
    """Compare the visits with the counter, which no roll-up touches."""
    return disagreement(counts())


def rows() -> str:
    recent = [f"recent: {len(row.kinds)}" for row in RecentVisits.objects.order_by("id")]
    hours = [f"hour: {row.people + row.bots}" for row in HourlyVisits.objects.order_by("id")]
    return ", ".join(recent + hours) or "no visits"


_race = partial(
    Race,
    operation="rolling_up",
    strategies=STRATEGIES["rolling_up"],
    invariant="The sum of the visits equals the counter.",
    setup=a_recent_visit,
    process=roll_up,
    check=sums_agree,
    rows=rows,
)

RACES = (
    _race(
        name="visit_meanwhile",
        situation="A visit is recorded while the other processes roll recent visits up.",
        story=(
            "The recent visits are added to the row of their hour, and their rows are deleted. A "
            "visit that is recorded between the two is deleted with them."
        ),
        first=record,
    ),
    _race(
        name="two_roll_ups",
        situation="Every process rolls up the same visits.",
        story=(
            "A roll-up takes longer than the interval of its timer, and a second one begins. Both "
            "read the same rows, and both add them to the hour."
        ),
    ),
)
