"""The catalogue of races, in the order of the story, with write skew and the museum."""

from typing import NamedTuple

from lab.races import (
    creating,
    delivering,
    idempotency,
    resolving,
    reusing,
    rolling_up,
    spending,
    visits,
)
from lab.races.museum import MUSEUM
from lab.races.race import Race
from lab.races.write_skew import WRITE_SKEW
from shorturl.strategies.table import STRATEGIES, Strategy


class Operation(NamedTuple):
    """An operation's strategies and races; the title is that of their table."""

    title: str
    strategies: dict[str, Strategy]
    races: tuple[Race, ...]


# By the folder of the operation's strategies.
OPERATIONS: dict[str, Operation] = {
    name: Operation(title, STRATEGIES[name], races)
    for name, title, races in (
        ("creating", "To create a short URL", creating.RACES),
        ("resolving", "To resolve a key and count the hit", resolving.RACES),
        ("reusing", "To reuse a link to the same target", reusing.RACES),
        ("idempotency", "To answer a repeated request once", idempotency.RACES),
        ("spending", "To spend a quota on a create", spending.RACES),
        ("recording_visits", "To record a visit with its hit", visits.RACES),
        ("rolling_up", "To roll visits up into their hours", rolling_up.RACES),
        ("delivering", "To tell receivers of events", delivering.RACES),
    )
}

RACES: dict[str, Race] = {}  # of the operations: the matrix on the lab's first page
for operation in OPERATIONS.values():
    RACES |= {race.name: race for race in operation.races}
EVERY_RACE: dict[str, Race] = {**RACES, WRITE_SKEW.name: WRITE_SKEW, **MUSEUM}
