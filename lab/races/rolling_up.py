"""The races of the roll-up: visits are recorded, or rolled up again, during a roll-up."""

from functools import partial

from lab.races.race import Race
from lab.races.visits import VISIT, describe_difference, make_unvisited_links, read_hits_and_visits
from pginterleave import Outcome
from shorturl.models import HourlyVisits, RecentVisits, ShortUrl
from shorturl.strategies.recording_visits import combined
from shorturl.strategies.table import STRATEGIES, Strategy


def record_visit() -> ShortUrl:
    return combined.record("a", VISIT)


def make_recent_visit(strategy: Strategy) -> None:
    make_unvisited_links(strategy)
    record_visit()


def roll_up(strategy: Strategy, process: int) -> object:
    return strategy.function()


def check_sums(outcomes: list[Outcome]) -> str:
    """Return a violation, or "" if there are as many visits as hits; no roll-up changes hits."""
    return describe_difference(read_hits_and_visits())


def describe_visits() -> str:
    recent = [f"recent: {len(row.kinds)}" for row in RecentVisits.objects.order_by("id")]
    hours = [f"hour: {row.people + row.bots}" for row in HourlyVisits.objects.order_by("id")]
    return ", ".join(recent + hours) or "no visits"


_race = partial(
    Race,
    operation="rolling_up",
    strategies=STRATEGIES["rolling_up"],
    invariant="The sum of the visits equals the counter.",
    setup=make_recent_visit,
    process=roll_up,
    check=check_sums,
    rows=describe_visits,
)

RACES = (
    _race(
        name="visit_meanwhile",
        situation="A visit is recorded while the other processes roll recent visits up.",
        story=(
            "The recent visits are added to the row of their hour, and their rows are deleted. A "
            "visit that is recorded between the two is deleted with them."
        ),
        first=record_visit,
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
