"""The catalogue of races, in the order of the story, with write skew and the museum."""

from typing import NamedTuple

from lab.races import (
    creating_races,
    delivering_races,
    idempotency_races,
    resolving_races,
    reusing_races,
    roll_up_races,
    spending_races,
    visit_races,
)
from lab.races.museum import MUSEUM
from lab.races.race_definition import Race
from lab.races.write_skew import WRITE_SKEW


class Operation(NamedTuple):  # its strategies are in shorturl.operations
    title: str  # of the table of its strategies
    races: tuple[Race, ...]


# By the folder of the operation's strategies. Pages, commands and tests follow this table.
OPERATIONS: dict[str, Operation] = {
    "creating": Operation("To create a short URL", creating_races.RACES),
    "resolving": Operation("To resolve a key and count the hit", resolving_races.RACES),
    "reusing": Operation("To reuse a link to the same target", reusing_races.RACES),
    "idempotency": Operation("To answer a repeated request once", idempotency_races.RACES),
    "spending": Operation("To spend a quota on a create", spending_races.RACES),
    "recording_visits": Operation("To record a visit with its hit", visit_races.RACES),
    "rolling_up": Operation("To roll visits up into longer times", roll_up_races.RACES),
    "delivering": Operation("To tell receivers of events", delivering_races.RACES),
}

RACES: dict[str, Race] = {race.name: race for one in OPERATIONS.values() for race in one.races}

EVERY_RACE: dict[str, Race] = {**RACES, WRITE_SKEW.name: WRITE_SKEW, **MUSEUM}
