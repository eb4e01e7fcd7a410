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
    refused: int = 0  # of the violating schedules: those in which a process gets an error

    def marked(self) -> str:
        """Return the counts with the lab's marks: ✓ right, ✗ wrong silently, ⊘ refused, ? open."""
        if not self.violating:
            return f"{'✓' if self.complete else '?'} {self}"
        if self.refused == self.violating:
            return f"⊘ {self}"
        return f"✗ {self}" + (f", ⊘ {self.refused}" if self.refused else "")

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
                    refused=result.raising,
                )


def markdown(cells: list[MatrixCell]) -> str:
    tables = []
    for operation, columns, rows, notes in _tables(cells):
        lines = [[name, *map(_violating_in_bold, row)] for name, row in rows.items()]
        tables += [table([operation, *columns], lines), *notes]
    return "\n\n".join(tables)


def text(cells: list[MatrixCell]) -> str:
    tables = []
    for operation, columns, rows, notes in _tables(cells):
        lines = [[operation, *columns]]
        lines += [
            [name, *(one.marked() if one else "–" for one in row)] for name, row in rows.items()
        ]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        padded = [
            [part.ljust(width) for part, width in zip(line, widths, strict=True)] for line in lines
        ]
        tables += ["\n".join("  ".join(line).rstrip() for line in padded), *notes]
    return "\n\n".join(tables)


Row = list[MatrixCell | None]


def _tables(cells: list[MatrixCell]) -> Iterator[tuple[str, list[str], dict[str, Row], list[str]]]:
    """Yield for each operation its name, its races, the rows by strategy, and the notes."""
    found = {(each.strategy, each.race): each for each in cells}
    for operation, (_, strategies, races) in OPERATIONS.items():
        columns = [race.name for race in races if any(race.name == name for _, name in found)]
        rows = {name: [found.get((name, race)) for race in columns] for name in strategies}
        rows = {name: row for name, row in rows.items() if any(row)}
        if columns:
            noted = [strategies[name] for name in rows if strategies[name].note]
            notes = [f"{one.name}: {one.note}" for one in noted]
            yield operation, columns, rows, notes


def _violating_in_bold(cell: MatrixCell | None) -> str:
    if cell is None:
        return "–"
    return f"**{cell}**" if cell.violating else str(cell)
