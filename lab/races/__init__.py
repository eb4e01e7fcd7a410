"""The catalogue of races, in the order of the story, with write skew and the museum."""

from lab.races import (
    creating_races,
    delivering_races,
    idempotency_races,
    resolving_races,
    reusing_races,
    roll_up_races,
    service,
    spending_races,
    visit_races,
)
from lab.races.museum import MUSEUM
from lab.races.race_definition import Operation, Race
from lab.races.write_skew import WRITE_SKEW
from shorturl.strategies.table import STRATEGIES

# By the folder of the operation's strategies: the title of their table, and their races.
RACES_OF: dict[str, tuple[str, tuple[Race, ...]]] = {
    "creating": ("To create a short URL", creating_races.RACES),
    "resolving": ("To resolve a key and count the hit", resolving_races.RACES),
    "reusing": ("To reuse a link to the same target", reusing_races.RACES),
    "idempotency": ("To answer a repeated request once", idempotency_races.RACES),
    "spending": ("To spend a quota on a create", spending_races.RACES),
    "recording_visits": ("To record a visit with its hit", visit_races.RACES),
    "rolling_up": ("To roll visits up into longer times", roll_up_races.RACES),
    "delivering": ("To tell receivers of events", delivering_races.RACES),
}
# Pages, commands and tests follow this table.
OPERATIONS: dict[str, Operation] = {
    **{name: Operation(title, STRATEGIES[name], of) for name, (title, of) in RACES_OF.items()},
    **service.OPERATIONS,
}

RACES: dict[str, Race] = {race.name: race for one in OPERATIONS.values() for race in one.races}

EVERY_RACE: dict[str, Race] = {**RACES, WRITE_SKEW.name: WRITE_SKEW, **MUSEUM}
