"""What has to hold between what was measured in one run."""

from collections.abc import Iterable
from typing import NamedTuple

from tabulate import tabulate

from benchmarks.measurements import Load, Measurement, median_ratio

SERVICE, ONE_LINE, BASELINE = "service", "one-line ASGI", "baseline"
RECORDING = "service with visits"  # and SERVICE only counts, as pgbench does beside it
PGBENCH = "pgbench"  # in the place of another service: with the same statements
CREATING = "on_conflict"  # the service's default
HOT, RANDOM, RANDOM_64, NEW = Load(), Load(keys="random"), Load(64, "random"), Load(keys="new")


class Goal(NamedTuple):
    """A service makes so many times the requests per second of another, or more, side by side."""

    ours: str
    load: Load
    theirs: str
    at_least: float
    their_load: Load | None = None  # if it is not the same

    @property
    def text(self) -> str:
        """What is compared, in words."""
        theirs = f"{self.theirs}, {self.their_load.asks_for}" if self.their_load else self.theirs
        ours = f"{self.ours}, {self.load.asks_for}, {self.load.connections} connections"
        return f"{ours} / {theirs}"

    def ratio(self, found: dict[tuple[str, Load], Measurement]) -> float | None:
        """Return the median of the rounds' ratios, None where one of the two was not measured."""
        ours = found.get((self.ours, self.load))
        other = self.ours if self.theirs == PGBENCH else self.theirs
        theirs = found.get((other, self.their_load or self.load))
        if not ours or not theirs:
            return None
        name = "pgbench" if self.theirs == PGBENCH else "per_second"
        return median_ratio(
            [one.value("per_second") for one in ours.readings],
            [one.value(name) for one in theirs.readings],
        )


GOALS = (
    Goal(SERVICE, HOT, PGBENCH, 2.0),
    Goal(SERVICE, Load(64), PGBENCH, 7.0),
    Goal(SERVICE, RANDOM, PGBENCH, 0.5),
    Goal(SERVICE, RANDOM_64, PGBENCH, 1.0),
    Goal(SERVICE, HOT, BASELINE, 2.5),
    Goal(SERVICE, Load(64), BASELINE, 2.5),
    Goal(SERVICE, RANDOM, BASELINE, 1.8),
    Goal(SERVICE, RANDOM_64, BASELINE, 2.2),
    Goal(CREATING, NEW, BASELINE, 1.4),
    Goal(SERVICE, Load(keys="random", links=10_000_000), SERVICE, 0.85, RANDOM),
    Goal(RECORDING, HOT, SERVICE, 0.85),
    Goal(RECORDING, RANDOM, SERVICE, 0.85),
)


def ratios(found: Iterable[Measurement]) -> dict[Goal, float]:
    """Return the ratio of each goal whose both sides were measured."""
    by_name = {(one.subject, one.load): one for one in found}
    of_all = ((goal, goal.ratio(by_name)) for goal in GOALS)
    return {goal: ratio for goal, ratio in of_all if ratio is not None}


def met(found: dict[Goal, float]) -> bool:
    """Return whether all goals that were measured are met."""
    return all(ratio >= goal.at_least for goal, ratio in found.items())


def table(found: dict[Goal, float]) -> str:
    """Return the ratios, and what is required, as a table in Markdown."""
    lines = [
        (goal.text, f"{ratio:.2f}", f"{goal.at_least:.2f}", "yes" if met({goal: ratio}) else "no")
        for goal, ratio in found.items()
    ]
    titles = ["requests per second", "times", "at least", "met"]
    return tabulate(
        lines, titles, "pipe", colalign=["left", "right", "right", "left"], disable_numparse=True
    )
