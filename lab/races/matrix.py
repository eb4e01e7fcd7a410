"""Strategies × races: the violating schedules of each pair, out of all."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from lab.markdown import table
from lab.races import OPERATIONS, RACES


class MatrixCell(NamedTuple):
    race: str
    strategy: str
    schedules: int
    violating: int
    complete: bool  # False: the search was truncated, so 0 violating schedules prove nothing

    def __str__(self) -> str:
        count = f"{self.violating} / {self.schedules}"
        return count if self.complete else f"{count} …"


def cells(processes: int | None = None, **limits: Any) -> Iterator[MatrixCell]:
    """Explore every race with each of its strategies, and yield the cells.

    With `processes`, only the races with this number in their counts are explored; by default,
    each race with its smallest number. `limits` are those of pginterleave.explore().
    """
    for race in RACES.values():
        count = processes or race.counts[0]
        if count in race.counts:
            for strategy in race.strategies.values():
                result = race.explore(strategy, count, reduce=True, **limits)
                yield MatrixCell(
                    race=race.name,
                    strategy=strategy.name,
                    schedules=result.schedules,
                    violating=result.violating,
                    complete=result.complete,
                )


def markdown(cells: list[MatrixCell]) -> str:
    found = {(each.strategy, each.race): each for each in cells}
    tables = []
    for operation, (_, strategies, races) in OPERATIONS.items():
        columns = [race.name for race in races if any(race.name == name for _, name in found)]
        rows = {name: [found.get((name, race)) for race in columns] for name in strategies}
        lines = [[name, *map(_violating_in_bold, row)] for name, row in rows.items() if any(row)]
        if columns:
            tables.append(table([operation, *columns], lines))
            noted = [one for name, one in strategies.items() if one.note and any(rows[name])]
            tables += [f"{one.name}: {one.note}" for one in noted]
    return "\n\n".join(tables)


def _violating_in_bold(cell: MatrixCell | None) -> str:
    if cell is None:
        return "–"
    return f"**{cell}**" if cell.violating else str(cell)
