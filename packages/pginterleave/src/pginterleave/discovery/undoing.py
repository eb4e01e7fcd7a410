"""The second look: whole-row saves that may undo what another request writes.

They are candidates and no races: no test needs to make both requests meet on one row.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pginterleave.discovery.findings import Race
from pginterleave.discovery.visits import Known
from pginterleave.picture.recorded import record_steps

Step = dict[str, Any]  # as record_steps() returns it


class Write(NamedTuple):
    """An UPDATE of one row: the columns that it changes, and those it writes as they were read."""

    name: str
    table: str
    changed: frozenset[str]
    unchanged: frozenset[str]
    where: str


def find_undoing(known: Mapping[str, Iterable[Known]], races: Iterable[Race]) -> list[str]:
    """Return a line on each whole-row save of a column that another request changes.

    What a race between the two has confirmed is left out.
    """
    confirmed = {frozenset(race.names) for race in races if race.kind == "rows"}
    writes = [write for group in known.values() for each in group for write in list_writes(each)]
    lines: dict[str, None] = {}
    for save, other in itertools.product(writes, writes):
        columns = save.unchanged & other.changed
        pair = frozenset((save.name, other.name))
        if columns and save.table == other.table and pair not in confirmed:
            text = (
                f"{save.name} saves {save.table} with the {', '.join(sorted(columns))} that it has "
                f"read ({save.where}), and {other.name} changes that ({other.where})"
            )
            lines[text] = None
    return [*lines]


def list_writes(known: Known) -> Iterator[Write]:
    """Yield the UPDATEs of a request that has run alone."""
    steps = record_steps(known.alone.timeline)
    for number, step in enumerate(steps):
        if step["kind"] != "UPDATE" or step["error"]:
            continue
        read = _find_row(steps[:number], step)
        wrote = step["wrote"]
        same = frozenset(name for name in wrote if name in read and read[name] == wrote[name])
        changed = frozenset([*wrote, *step["computed"]]) - same
        yield Write(known.candidate.name, step["table"], changed, same, step["where"])


def _find_row(steps: list[Step], update: Step) -> dict[str, str | None]:
    """Return the row that an UPDATE writes, as a SELECT of the same request has read it last."""
    for step in reversed(steps):
        if step["table"] == update["table"] and step["kind"] == "SELECT":
            for row in step["read"]:
                if all(row.get(name) == value for name, value in update["condition"].items()):
                    return dict(row)
    return {}
