"""Strategies × races: how many schedules of each break, out of how many."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lab.catalogue import RACES
from lab.catalogue.race_definition import Race
from pginterleave import Exploration
from shorturl import creating, resolving
from shorturl.strategies import Strategy

TABLES: dict[str, dict[str, Strategy[Any]]] = {
    "creating": creating.STRATEGIES,
    "resolving": resolving.STRATEGIES,
}


@dataclass(frozen=True)
class Cell:
    """What came of one race against one strategy.

    `witness` is the shortest broken schedule, or None. Where `complete` is False the search was
    cut, and what it did not find proves nothing.
    """

    race: str
    strategy: str
    processes: int
    schedules: int
    broken: int
    complete: bool
    witness: str | None

    def __str__(self) -> str:
        count = f"{self.broken} / {self.schedules}"
        return count if self.complete else f"{count} …"


def cell(race: Race, strategy: Strategy[Any], processes: int, result: Exploration) -> Cell:
    """Return the cell of one exploration."""
    return Cell(
        race=race.name,
        strategy=strategy.name,
        processes=processes,
        schedules=result.schedules,
        broken=result.violating,
        complete=result.complete,
        witness=result.counterexample.order if result.counterexample else None,
    )


def cells(processes: int | None = None, **limits: Any) -> Iterator[Cell]:
    """Explore every race against every strategy that takes part, and yield the cells.

    `processes` picks the races that are explored with so many; by default each is explored with
    the fewest of its own. `limits` are those of interleave.explore.
    """
    for race in RACES.values():
        count = processes or race.counts[0]
        if count in race.counts:
            for strategy in race.strategies.values():
                yield cell(
                    race, strategy, count, race.explore(strategy, count, reduce=True, **limits)
                )


def markdown(cells: list[Cell]) -> str:
    """Return the cells as Markdown tables, one for each operation."""
    tables = []
    for operation, table in TABLES.items():
        found = {(c.strategy, c.race): c for c in cells if RACES[c.race].operation == operation}
        races = list(dict.fromkeys(race for _, race in found))
        strategies = [name for name in table if any(name == strategy for strategy, _ in found)]
        if not found:
            continue
        lines = [f"| {operation} | {' | '.join(races)} |", "| --- |" + " --- |" * len(races)]
        for strategy in strategies:
            row = [_broken_in_bold(found.get((strategy, race))) for race in races]
            lines.append(f"| {strategy} | {' | '.join(row)} |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def _broken_in_bold(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    return f"**{cell}**" if cell.broken else str(cell)
