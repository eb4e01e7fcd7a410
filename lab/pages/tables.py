"""Counts as tables for the pages, with a row for each strategy."""

from typing import NamedTuple

from lab.exploring.asked import explored_here
from lab.exploring.jobs import ISOLATED, LEVELS, READ_COMMITTED, Job
from lab.races import EVERY_RACE, OPERATIONS
from lab.races.counts import COUNTS, Count
from lab.races.race_definition import Race
from shorturl.strategies.table import Strategy


class Cell(NamedTuple):
    """An exploration with its count, if that is `known`, and whether it was made `here`."""

    job: Job
    known: Count | None
    here: bool


class Table(NamedTuple):
    title: str
    columns: list[str]
    rows: list[tuple[Strategy, list[Cell | None]]]  # None: the race has no such strategy


class Counted:
    """The counts of counts.json, which of them were explored here, and tables of both."""

    def __init__(self) -> None:
        self._here = explored_here()

    def cell(
        self, race: Race, strategy: str, processes: int = 0, level: str = READ_COMMITTED
    ) -> Cell | None:
        """Return the cell, or None without the strategy; 0 is the smallest number of processes."""
        if strategy not in race.strategies:
            return None
        job = Job(race, race.strategies[strategy], processes or race.counts[0], level)
        return Cell(job, COUNTS.get(str(job)), str(job) in self._here)

    def matrix(self, operation: str) -> Table:
        title, strategies, races = OPERATIONS[operation]
        return Table(
            title,
            [race.name for race in races],
            [(one, [self.cell(race, name) for race in races]) for name, one in strategies.items()],
        )

    def isolation(self) -> list[Table]:
        return [
            Table(
                name,
                list(LEVELS),
                [
                    (one, [self.cell(EVERY_RACE[name], one.name, level=level) for level in LEVELS])
                    for one in EVERY_RACE[name].strategies.values()
                ],
            )
            for name in ISOLATED
        ]

    def of_race(self, race: Race) -> Table:
        columns = [f"{count} process{'es' * (count > 1)}" for count in race.counts]
        rows = [
            (one, [self.cell(race, one.name, count) for count in race.counts])
            for one in race.strategies.values()
        ]
        return Table(race.name, columns, rows)
