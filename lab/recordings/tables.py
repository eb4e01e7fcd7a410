"""Tables of the counts in the recordings, with a row for each strategy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lab.races import OPERATIONS
from lab.races.race import Race
from lab.recordings.cells import LEVELS, Cell
from lab.recordings.recording import Count, read_counts
from shorturl.strategies.table import Strategy


@dataclass(frozen=True)
class CountedCell:
    """A cell, and its count, or None if it is not recorded yet."""

    cell: Cell
    count: Count | None

    def __str__(self) -> str:
        return str(self.count or "…")


class Table(NamedTuple):
    """Rows of a strategy and its cells; None stands for a race without the strategy."""

    title: str
    columns: list[str]
    rows: list[tuple[Strategy, list[CountedCell | None]]]


def of_operation(name: str, processes: int | None = None) -> Table:
    """Return the strategies of an operation × its races.

    By default each race has its smallest number of processes. With `processes`, only the races that
    are explored with this number are shown.
    """
    _, strategies, every_race = OPERATIONS[name]
    races = [race for race in every_race if processes in (None, *race.counts)]
    columns = [_column(race, processes or race.counts[0]) for race in races]
    return _table(name, strategies.values(), [race.name for race in races], columns)


def of_race(race: Race) -> Table:
    """Return the strategies of a race × its numbers of processes."""
    titles = [f"{number} process{'es' * (number > 1)}" for number in race.counts]
    columns = [_column(race, number) for number in race.counts]
    return _table(race.name, race.strategies.values(), titles, columns)


def of_levels(race: Race) -> Table:
    """Return the strategies of a race × the isolation levels."""
    columns = [_column(race, race.counts[0], level) for level in LEVELS]
    return _table(race.name, race.strategies.values(), LEVELS, columns)


Column = dict[str, CountedCell]


def _column(race: Race, processes: int, level: str = LEVELS[0]) -> Column:
    """Return the cells of a column by the names of their strategies."""
    counts = read_counts(race)
    cells = [Cell(race, strategy, processes, level) for strategy in race.strategies.values()]
    return {cell.strategy.name: CountedCell(cell, counts.get(cell.key)) for cell in cells}


def _table(
    title: str, strategies: Iterable[Strategy], titles: Sequence[str], columns: list[Column]
) -> Table:
    """Return a table of the columns, without the strategies that no column has."""
    rows = [
        (strategy, [column.get(strategy.name) for column in columns])
        for strategy in strategies
        if any(strategy.name in column for column in columns)
    ]
    return Table(title, list(titles), rows)
