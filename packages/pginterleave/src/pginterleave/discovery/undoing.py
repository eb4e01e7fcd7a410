"""The second look: whole-row saves that may undo what another request writes.

Their pairs are explored before the other ones. Without a pair they are candidates and no races: no
test needs to make both requests meet on one row.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from pginterleave.discovery.findings import Race
from pginterleave.picture.recorded import record_steps
from pginterleave.picture.wording import RecordedStep
from pginterleave.results import Schedule


class Update(NamedTuple):
    """An UPDATE of one row: the columns that it changes, and those it writes as they were read."""

    name: str
    table: str
    changed: frozenset[str]
    unchanged: frozenset[str]
    where: str

    def find_undone(self, other: "Update") -> frozenset[str]:
        """Return the columns of another UPDATE that this one may undo."""
        return self.unchanged & other.changed if self.table == other.table else frozenset()


def may_undo(updates: Collection[Update], others: Collection[Update]) -> bool:
    """Whether an UPDATE of one request may undo one of the other."""
    pairs = itertools.product(updates, others)
    return any(one.find_undone(other) or other.find_undone(one) for one, other in pairs)


def describe_undoing(updates: Collection[Update], races: Iterable[Race]) -> list[str]:
    """Return a line on each whole-row save of a column that another request changes.

    What a race between the two has confirmed is left out.
    """
    confirmed = {pair for race in races if race.kind == "rows" for pair in race.list_pairs()}
    lines: dict[str, None] = {}
    for save, other in itertools.product(updates, updates):
        columns = save.find_undone(other)
        if columns and frozenset((save.name, other.name)) not in confirmed:
            text = (
                f"{save.name} saves {save.table} with the {', '.join(sorted(columns))} that it has "
                f"read{_write_line(save)}, and {other.name} changes that{_write_line(other)}"
            )
            lines[text] = None
    return [*lines]


def _write_line(update: Update) -> str:
    """Write the project's line of code that sends an UPDATE; Django's admin has none."""
    return f" ({update.where})" if update.where else ""


def list_updates(name: str, alone: Schedule) -> Iterator[Update]:
    """Yield the UPDATEs of a request that has run alone."""
    steps = record_steps(alone.timeline)
    for number, step in enumerate(steps):
        if step["kind"] != "UPDATE" or step["error"]:
            continue
        read = _find_row(steps[:number], step)
        wrote = step["wrote"]
        same = frozenset(
            column for column in wrote if column in read and read[column] == wrote[column]
        )
        changed = frozenset([*wrote, *step["computed"]]) - same
        yield Update(name, step["table"], changed, same, step["where"])


def _find_row(steps: list[RecordedStep], update: RecordedStep) -> dict[str, str | None]:
    """Return the row that an UPDATE writes, as a SELECT of the same request has read it last."""
    for step in reversed(steps):
        if step["table"] == update["table"] and step["kind"] == "SELECT":
            for row in step["read"]:
                if all(row.get(name) == value for name, value in update["condition"].items()):
                    return dict(row)
    return {}
