"""What went wrong in a schedule that violates its invariant: stale reads and lost writes."""

from typing import Any

WRITES = {"INSERT", "UPDATE", "DELETE", "MERGE"}
ROW = ("id", "key")  # what tells one row from another

Step = dict[str, Any]


def can_mark(steps: list[Step]) -> bool:
    """Return whether the recording says what each step read and wrote: older ones do not."""
    return all("wrote" in step for step in steps)


def marks(steps: list[Step]) -> dict[int, list[str]]:
    """Return the marks of a schedule's steps, by their number (from 1).

    A process that reads a row, and writes it afterwards, takes what it has read for the truth.
    Where another one has written the row in between, the read was stale by then. If the write
    sets a column that the other one has changed, the other's is lost. Ask for schedules that
    violate the invariant: in the others, nothing of this did harm.
    """
    found: dict[int, list[str]] = {}
    # In the order in which they returned: one that waited took effect later than it was sent.
    # Of those that one COMMIT let go on, the one that was sent first got the lock first.
    returned = sorted(range(1, len(steps) + 1), key=lambda number: steps[number - 1]["until"])
    for write, second in enumerate(steps, start=1):
        read = last_read(steps, write)
        if second["kind"] not in WRITES or read is None:
            continue
        between = [
            number
            for number in returned[returned.index(read) : returned.index(write)]
            if steps[number - 1]["process"] != second["process"]
            and lasts(steps, number)
            and same_row(steps[number - 1], second)
        ]
        if not between:
            continue
        process = steps[between[0] - 1]["process"]
        add(found, read, f"stale read: process {process} writes after it")
        if second["error"]:
            add(found, write, "fails: what it read is out of date")
        for number in between:
            if not second["error"] and overwrites(steps[read - 1], steps[number - 1], second):
                add(found, number, f"lost update: overwritten by step {write}")
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
    if not step["table"] or step["table"] != other["table"]:
        return False
    one, two = ({**each["wrote"], **each["condition"], **each["read"]} for each in (step, other))
    told = [one[name] == two[name] for name in ROW if name in one and name in two]
    return any(told) or not told


def overwrites(read: Step, first: Step, second: Step) -> bool:
    """Return whether `second` sets a column that `first` has changed since `read`."""
    if second["kind"] != "UPDATE" or first["kind"] == "INSERT":
        return False
    changed = first["wrote"]
    return any(
        column in changed and changed[column] != read["read"].get(column)
        for column in second["wrote"]
    )


def add(found: dict[int, list[str]], number: int, mark: str) -> None:
    """Note a mark once."""
    marks = found.setdefault(number, [])
    if mark not in marks:
        marks.append(mark)
