"""What went wrong in a broken schedule: which read was stale, and which write was lost."""

import re
from typing import Any

WRITES = {"INSERT", "UPDATE", "DELETE", "MERGE"}
TABLE = re.compile(r"\b(?:FROM|INTO|UPDATE)\s+(\w+)")
VALUE = re.compile(r"\b(\w+) = ('[^']*'|[^\s,()]+)")
INSERTED = re.compile(r"\((.*?)\) VALUES \((.*?)\)(?: RETURNING| ON |$)")
ROW = ("id", "key")  # what tells one row from another

Step = dict[str, Any]


def marks(steps: list[Step]) -> dict[int, list[str]]:
    """Return the marks of a broken schedule's steps, by their number (from 1).

    A process that reads a row, and writes it afterwards, takes what it has read for the truth.
    Where another one has written the row in between, the read was stale by then. If the write
    sets a column that the other one has changed, to what it takes it for, the other's is lost. Ask
    for schedules that are broken: in the others, nothing of this did harm.
    """
    found: dict[int, list[str]] = {}
    for write, second in enumerate(steps, start=1):
        read = last_read(steps, write)
        if second["kind"] not in WRITES or read is None:
            continue
        first = steps[read - 1]
        between = [
            number
            for number, step in enumerate(steps, start=1)
            if step["process"] != second["process"]
            and first["until"] < step["until"] <= second["until"]
            and lasts(steps, number)
            and same_row(step, second)
        ]
        if not between:
            continue
        process = steps[between[0] - 1]["process"]
        add(found, read, f"stale: process {process} writes after it")
        if second["error"]:
            add(found, write, "fails: what it read is no longer so")
        for number in between:
            if not second["error"] and overwrites(first, steps[number - 1], second):
                add(found, number, f"lost: overwritten by step {write}")
                add(found, write, f"overwrites step {number}")
    return found


def last_read(steps: list[Step], write: int) -> int | None:
    """Return the number of the last read of the same row by the process that writes."""
    own = steps[write - 1]
    for number in range(write - 1, 0, -1):
        step = steps[number - 1]
        if step["process"] == own["process"] and same_row(step, own):
            if step["kind"] == "SELECT":
                return number
            if step["kind"] in WRITES and not step["error"]:
                return None  # what it knows since then, it has written itself
    return None


def lasts(steps: list[Step], number: int) -> bool:
    """Return whether a step changes a row, and is not rolled back."""
    step = steps[number - 1]
    if step["kind"] not in WRITES or step["error"] or step["rows"] == 0:
        return False
    later = [each["kind"] for each in steps[number:] if each["process"] == step["process"]]
    ends = [kind for kind in later if kind in ("COMMIT", "ROLLBACK", "ROLLBACK TO")]
    return not ends or ends[0] == "COMMIT"


def same_row(step: Step, other: Step) -> bool:
    """Return whether two statements are about the same row, as far as they say."""
    tables = [TABLE.search(each["sql"]) for each in (step, other)]
    if not tables[0] or not tables[1] or tables[0][1] != tables[1][1]:
        return False
    one, two = values(step), values(other)
    told = [one[name] == two[name] for name in ROW if name in one and name in two]
    return any(told) or not told


def values(step: Step) -> dict[str, str]:
    """Return the values by column that a statement names or returns."""
    found = dict(VALUE.findall(step["sql"]) + VALUE.findall(step["result"]))
    if inserted := INSERTED.search(step["sql"]):
        found |= dict(zip(inserted[1].split(", "), inserted[2].split(", "), strict=False))
    return {name: value.strip("'").replace("NULL", "None") for name, value in found.items()}


def overwrites(read: Step, first: Step, second: Step) -> bool:
    """Return whether `second` sets a column that `first` has changed since `read`."""
    if second["kind"] != "UPDATE" or first["kind"] == "INSERT":
        return False
    before = values(read)
    changed = [settings(step) for step in (first, second)]
    return any(
        column in changed[0] and changed[0][column] != before.get(column) for column in changed[1]
    )


def settings(step: Step) -> dict[str, str]:
    """Return the columns that an UPDATE sets to a value, and not to an expression."""
    text = step["sql"].partition(" SET ")[2].rpartition(" WHERE ")[0]
    parts = re.split(r", (?=\w+ = )", text)
    pairs = (part.partition(" = ")[::2] for part in parts)
    return {
        name: value.strip("'").replace("NULL", "None")
        for name, value in pairs
        if not value.startswith("(") and not re.search(r" [-+*/|] ", value)
    }


def add(found: dict[int, list[str]], number: int, mark: str) -> None:
    """Note a mark once."""
    marks = found.setdefault(number, [])
    if mark not in marks:
        marks.append(mark)
