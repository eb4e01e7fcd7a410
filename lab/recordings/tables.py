"""Tables of the counts in the recordings, with a row for each strategy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lab.races import OPERATIONS
from lab.races.race import Race
from lab.recordings.cells import LEVELS, READ_COMMITTED, Cell
from lab.recordings.recording import Count, read_counts
from shorturl.strategies.table import Strategy


@dataclass(frozen=True)
class CountedCell:
    """A cell, and its count, which is None if the cell is not recorded yet."""

    cell: Cell
    count: Count | None

    def __str__(self) -> str:
        return str(self.count or "…")


class Table(NamedTuple):
    """A row for each strategy, with a cell for each column, or None if there is no such cell."""

    title: str
    columns: list[str]
    rows: list[tuple[Strategy, list[CountedCell | None]]]


def make_operation_table(name: str, processes: int | None = None) -> Table:
    """Return the table of an operation: its strategies × its races.

    By default each race has its smallest number of processes. With `processes` the table has the
    races that are explored with this number.
    """
    operation = OPERATIONS[name]
    races = [race for race in operation.races if not processes or processes in race.process_counts]
    columns = [_make_column(race, processes or min(race.process_counts)) for race in races]
    strategies = operation.strategies.values()
    return _make_table(name, strategies, [race.name for race in races], columns)


def make_race_table(race: Race) -> Table:
    """Return the table of a race: its strategies × its numbers of processes."""
    numbers = race.process_counts
    headings = ["1 process" if number == 1 else f"{number} processes" for number in numbers]
    columns = [_make_column(race, number) for number in numbers]
    return _make_table(race.name, race.strategies.values(), headings, columns)


def make_level_table(race: Race) -> Table:
    """Return the table of a race: its strategies × the isolation levels."""
    columns = [_make_column(race, min(race.process_counts), level) for level in LEVELS]
    return _make_table(race.name, race.strategies.values(), LEVELS, columns)


Column = dict[str, CountedCell]


def _make_column(race: Race, processes: int, level: str = READ_COMMITTED) -> Column:
    """Return the cells of a race with this number of processes, by the names of strategies."""
    counts = read_counts(race)
    cells = [Cell(race, strategy, processes, level) for strategy in race.strategies.values()]
    return {cell.strategy.name: CountedCell(cell, counts.get(cell.key)) for cell in cells}


def _make_table(
    title: str, strategies: Iterable[Strategy], headings: Sequence[str], columns: list[Column]
) -> Table:
    """Return a table of the columns, without the strategies that no column has."""
    rows = [
        (strategy, [column.get(strategy.name) for column in columns])
        for strategy in strategies
        if any(strategy.name in column for column in columns)
    ]
    return Table(title, list(headings), rows)
