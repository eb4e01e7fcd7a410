"""The catalogue of races, in the order of the story, with write skew and the museum."""

from typing import Any

from lab.catalogue import creating_races, resolving_races
from lab.catalogue.museum import MUSEUM
from lab.catalogue.race_definition import Race
from lab.catalogue.write_skew import WRITE_SKEW
from shorturl import creating, resolving
from shorturl.strategies import Strategy

# A row for each operation: its strategies and its races. Pages, commands and tests follow it.
OPERATIONS: dict[str, tuple[dict[str, Strategy[Any]], tuple[Race, ...]]] = {
    "creating": (creating.STRATEGIES, creating_races.RACES),
    "resolving": (resolving.STRATEGIES, resolving_races.RACES),
}

RACES: dict[str, Race] = {race.name: race for _, races in OPERATIONS.values() for race in races}

EVERY_RACE: dict[str, Race] = {**RACES, WRITE_SKEW.name: WRITE_SKEW, **MUSEUM}
