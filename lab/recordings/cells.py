"""A cell of the lab's tables is one exploration: it has a race, a strategy and two settings."""

from dataclasses import dataclass
from difflib import get_close_matches
from urllib.parse import urlencode

from django.urls import reverse

from lab.exceptions import NotFound
from lab.races import EVERY_RACE
from lab.races.race import Race
from shorturl.strategies.table import Strategy

READ_COMMITTED = "read committed"
LEVELS = (READ_COMMITTED, "repeatable read", "serializable")
# The races that are explored at every level.
ISOLATED = ("lost_update", "clobbered_edit", "toctou_in_a_transaction", "write_skew")


@dataclass(frozen=True)
class Cell:
    """One exploration of a race: with a strategy, a number of processes, an isolation level."""

    race: Race
    strategy: Strategy
    processes: int
    level: str = READ_COMMITTED

    def __str__(self) -> str:
        return f"{self.race.name}/{self.key}"

    @property
    def key(self) -> str:
        """The name of the cell in the file of its race: strategy/processes/level."""
        return f"{self.strategy.name}/{self.processes}/{self.level.replace(' ', '-')}"

    @property
    def path(self) -> str:
        """The path of the cell's page."""
        path = reverse("lab:exploration", args=[self.race.name, self.strategy.name, self.processes])
        standard = self.level == READ_COMMITTED
        return path if standard else f"{path}?{urlencode({'level': self.level})}"

    @property
    def command(self) -> str:
        """The command that records the cell."""
        return f"manage.py race record {self.race.name} {self.strategy.name}"


def cells_of(race: Race) -> list[Cell]:
    """Return the cells of a race that are recorded for the pages."""
    cells = []
    for strategy in race.strategies.values():
        cells += [Cell(race, strategy, processes) for processes in race.process_counts]
    if race.name in ISOLATED:
        for strategy in race.strategies.values():
            cells += [Cell(race, strategy, min(race.process_counts), level) for level in LEVELS[1:]]
    return cells


def find_cell(race_name: str, strategy: str, processes: str = "", level: str = "") -> Cell:
    """Return the cell of these names; raise NotFound with the names that exist.

    By default the cell has the race's smallest number of processes, at READ COMMITTED.
    """
    race = find_race(race_name)
    level = level or READ_COMMITTED
    cell = Cell(race, race.find_strategy(strategy), race.parse_processes(processes), level)
    if level not in LEVELS:
        raise NotFound(f"The isolation levels are {', '.join(LEVELS)}, not {level!r}.")
    if cell not in cells_of(race):
        raise NotFound(f"{race.name} with {cell.processes} processes is not recorded at {level}.")
    return cell


def find_race(name: str) -> Race:
    """Return the race of this name; raise NotFound with the nearest name."""
    if name not in EVERY_RACE:
        (nearest,) = get_close_matches(name, EVERY_RACE, n=1, cutoff=0)
        raise NotFound(
            f"There is no race {name!r}. The nearest one is {nearest}; "
            "`manage.py race list` lists all."
        )
    return EVERY_RACE[name]
