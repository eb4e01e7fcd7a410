"""Strategies × races: the violating schedules of each pair, out of all, from counts.json.

By default each race has its smallest number of processes. With `processes`, only the races that are
explored with this number are shown.
"""

from collections.abc import Callable, Iterator
from typing import Any

from lab.exploring.jobs import Job
from lab.markdown import aligned, table
from lab.races import OPERATIONS, RACES
from lab.races.counts import COUNTS, Count
from lab.races.race_definition import Race


def markdown(processes: int | None = None) -> str:
    """Return a table for each operation, with what violates in bold."""

    def bold(count: Count) -> str:
        return f"**{count}**" if count.violating else str(count)

    tables = [[table(titles, rows), *notes] for titles, rows, notes in _tables(processes, bold)]
    return "\n\n".join(part for each in tables for part in each)


def text(processes: int | None = None) -> str:
    """Return a table for each operation in aligned columns, with the lab's marks."""
    tables = [
        [aligned(titles, rows), *notes] for titles, rows, notes in _tables(processes, Count.marked)
    ]
    return "\n\n".join(part for each in tables for part in each)


def data(processes: int | None = None) -> list[dict[str, Any]]:
    """Return the counts that are known, each with its race and strategy."""
    return [
        {"race": race.name, "strategy": strategy, **count._asdict()}
        for race in RACES.values()
        if processes in (None, *race.counts)
        for strategy in race.strategies
        if (count := _count(race, strategy, processes))
    ]


def _tables(
    processes: int | None, shown: Callable[[Count], str]
) -> Iterator[tuple[list[str], list[list[str]], list[str]]]:
    """Yield for each operation the titles of the columns, the rows, and the notes."""

    def cell(race: Race, strategy: str) -> str:
        count = _count(race, strategy, processes)
        return shown(count) if count else "…" if strategy in race.strategies else "–"

    for operation, (_, strategies, every) in OPERATIONS.items():
        races = [race for race in every if processes in (None, *race.counts)]
        listed = [
            one
            for name, one in strategies.items()
            if any(name in race.strategies for race in races)
        ]
        rows = [[one.name, *(cell(race, one.name) for race in races)] for one in listed]
        if races:
            titles = [operation, *(race.name for race in races)]
            yield titles, rows, [f"{one.name}: {one.note}" for one in listed if one.note]


def _count(race: Race, strategy: str, processes: int | None) -> Count | None:
    if strategy not in race.strategies:
        return None
    job = Job(race, race.strategies[strategy], processes or race.counts[0])
    return COUNTS.get(str(job))
