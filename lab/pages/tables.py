"""Recordings as tables for the pages, with a row for each strategy."""

from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.urls import reverse

from lab.models import Recording
from lab.races import EVERY_RACE, OPERATIONS
from lab.races.race_definition import Race
from lab.recording.jobs import ISOLATED, LEVELS, READ_COMMITTED, Job
from shorturl.strategies.strategy import Strategy


class RecordedCell(NamedTuple):
    job: Job
    recording: Recording | None  # None: not explored yet

    @property
    def url(self) -> str:
        job = self.job
        path = reverse("lab:exploration", args=[job.race.name, job.strategy.name, job.processes])
        standard = job.isolation == READ_COMMITTED
        return path if standard else f"{path}?{urlencode({'level': job.isolation})}"


class Table(NamedTuple):
    title: str
    columns: list[str]
    rows: list[
        tuple[Strategy[Any], list[RecordedCell | None]]
    ]  # None: the race does not have the strategy


class Recorded:
    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._found = {
            (each.race, each.strategy, each.processes, each.isolation): each for each in recordings
        }

    def cell(
        self, race: Race, strategy: str, processes: int = 0, level: str = READ_COMMITTED
    ) -> RecordedCell | None:
        """Return the cell, or None without the strategy; 0 is the smallest number of processes."""
        if strategy not in race.strategies:
            return None
        job = Job(race, race.strategies[strategy], processes or race.counts[0], level)
        return RecordedCell(job, self._found.get(tuple(job.where().values())))

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
