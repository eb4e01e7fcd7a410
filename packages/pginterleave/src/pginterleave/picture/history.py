"""The steps of a schedule as a history: when each took effect, and on which rows."""

from itertools import product
from typing import NamedTuple

from pginterleave.picture.wording import WRITES, Names, Step

ROW = ("id", "key")  # the columns that identify a row; all visits of a link count as one row
NEVER = (10**9, 0, 0)
Moment = tuple[int, int, int]


class History:
    """The `steps` of a schedule, each with its `number` from 1, and when each took effect."""

    def __init__(self, steps: list[Step], snapshots: bool = False) -> None:
        self.steps: list[Step] = [{**step, "number": n} for n, step in enumerate(steps, start=1)]
        self.snapshots = snapshots

    def done(self, step: Step) -> Moment:
        """Return when a step took effect: after the step that woke it, and in the order sent."""
        return step["until"], int(step["until"] > step["number"]), step["number"]

    def visible(self, step: Step) -> Moment:
        """Return when other processes see a step's writes: NEVER if they were undone."""
        if step["kind"] not in WRITES or step["error"] or step["rows"] == 0:
            return NEVER
        for later in self.after(step):
            if later["kind"] in ("COMMIT", "ROLLBACK", "ROLLBACK TO"):
                return self.done(later) if later["kind"] == "COMMIT" else NEVER
        inside = step["process"] in self.steps[-1]["in_transaction"]
        return NEVER if inside else self.done(step)

    def read_at(self, step: Step) -> Moment:
        """Return the moment of the snapshot that a step reads."""
        moment = self.done(step)
        for earlier in reversed(self.before(step)) if self.snapshots else ():
            if earlier["kind"] in ENDS:
                break
            moment = sent_at(earlier)
        return moment

    def before(self, step: Step) -> list[Step]:
        """Return the earlier steps of the same process."""
        earlier = self.steps[: step["number"] - 1]
        return [other for other in earlier if other["process"] == step["process"]]

    def after(self, step: Step) -> list[Step]:
        """Return the later steps of the same process."""
        later = self.steps[step["number"] :]
        return [other for other in later if other["process"] == step["process"]]

    def writes(self) -> list[Step]:
        """Return the steps whose writes were committed."""
        return [step for step in self.steps if self.visible(step) < NEVER]

    def writes_of(self, process: int) -> list[Step]:
        return [step for step in self.writes() if step["process"] == process]

    def writes_of_others(self, process: int) -> list[Step]:
        return [step for step in self.writes() if step["process"] != process]

    def writes_before(self, step: Step) -> list[Step]:
        """Return the writes of other processes that took effect before a step."""
        others = self.writes_of_others(step["process"])
        return [other for other in others if self.done(other) < self.done(step)]

    def last_read(self, write: Step) -> Step | None:
        """Return the last read of the same rows by the process that writes."""
        for step in reversed(self.before(write)):
            if step["subquery"] and write["table"] in step["tables"]:
                return step
            if same_rows(step, write):
                if step["kind"] == "SELECT":
                    return step
                pairs = product(_rows(step), _rows(write), ROW)
                same = any(row.get(name, "") == other.get(name) for row, other, name in pairs)
                if step["kind"] == "INSERT" and not same:
                    continue  # a new row, and a different one as far as is known
                if step["kind"] in WRITES and not step["error"]:
                    return None  # since then the process knows the row by its own write
        return None


def sent_at(step: Step) -> Moment:
    return step["number"], 0, step["number"]


def may_have_read(read: Step, write: Step) -> bool:
    """Return whether `read` can read a row that `write` writes; a subquery may read any row."""
    if read["subquery"] or write["table"] != read["table"]:
        return not set(write["writes"]).isdisjoint(read["tables"])
    return same_rows(read, write)


def would_have_read(read: Step, write: Step) -> bool:
    """Return whether a row that `write` has written meets the condition of `read`."""
    same_table = write["table"] == read["table"]
    return same_table and any(_agree(read["condition"], row) for row in _rows(write))


def same_rows(step: Step, other: Step) -> bool:
    """Return whether two statements can be about the same row, as far as is known."""
    if not step["table"] or step["table"] != other["table"]:
        return False
    return any(_agree(row, other_row) for row in _rows(step) for other_row in _rows(other))


def same_write(step: Step, other: Step) -> bool:
    """Return whether two statements write the same columns of a table."""
    same = all(step[name] == other[name] for name in ("kind", "table", "computed"))
    return same and set(step["wrote"]) == set(other["wrote"])


def _rows(step: Step) -> list[dict[str, str | None]]:
    """Return the known columns of each row of a step: from its result, condition and writes."""
    known = {**step["condition"], **{c: v for c, v in step["wrote"].items() if c in ROW}}
    if step["kind"] == "INSERT":
        known = step["wrote"]
    rows = [{c: v for c, v in row.items() if c in ROW} for row in step["read"]]
    return [{**row, **known} for row in rows] or [known]


def _agree(row: dict[str, str | None], other_row: dict[str, str | None]) -> bool:
    equal = {column: row[column] == other_row[column] for column in row.keys() & other_row.keys()}
    identity = [equal[column] for column in ROW if column in equal]
    return any(identity) if identity else all(equal.values())


def overwrites(read: Step, first: Step, second: Step) -> bool:
    """Return whether `second` sets a column that `first` has changed since `read`."""
    if second["kind"] != "UPDATE" or first["kind"] == "INSERT" or not same_rows(first, second):
        return False
    row = _rows(first)[0]
    before: Step = next((candidate for candidate in read["read"] if _agree(candidate, row)), {})
    changed = {column for column, value in first["wrote"].items() if value != before.get(column)}
    return not changed.union(first["computed"]).isdisjoint(second["wrote"])


ENDS = ("COMMIT", "ROLLBACK")
NEW_ROW = "new row"  # other processes do not see it until the transaction that inserted it ends


class Transaction(NamedTuple):
    """A transaction, from its first step to its last; `end` is COMMIT, ROLLBACK or "" (open)."""

    process: int
    first: int
    last: int
    end: str


class Lock(NamedTuple):
    """A lock that a process holds: its `mode`, and the name of the locked object, `on`."""

    process: int
    first: int
    last: int
    mode: str
    on: str


class Wait(NamedTuple):
    """A step that waits for other processes, until the step `last`."""

    process: int
    first: int
    last: int
    waited_for: tuple[int, ...]


def cut_steps(steps: list[Step], number: int) -> list[Step]:
    """Return the first steps as they were at that time: a waiting step stays waiting."""
    unknown = {"until": number + 1, "result": "", "read": [], "error": "", "message": "", "rows": 1,
               "pivot": False}  # fmt: skip
    return [{**step, **unknown} if step["until"] > number else step for step in steps[:number]]


def find_transactions(steps: list[Step]) -> list[Transaction]:
    """Return the transactions of more than one statement, in the order in which they end."""
    ended: list[Transaction] = []
    since: dict[int, int] = {}
    for row, step in enumerate(steps, start=1):
        for process in set(step["in_transaction"]) - set(since):
            since[process] = row
        for process in set(since) - set(step["in_transaction"]):
            first = since.pop(process)
            if step["process"] == process and step["kind"] in ENDS:
                ended.append(Transaction(process, first, row, step["kind"]))
    after = len(steps) + 1
    return ended + [Transaction(process, first, after, "") for process, first in since.items()]


def find_waits(steps: list[Step]) -> list[Wait]:
    return [
        Wait(step["process"], row, step["until"], tuple(step["waited_for"]))
        for row, step in enumerate(steps, start=1)
        if step["waited_for"]
    ]


def find_retries(steps: list[Step]) -> set[int]:
    """Return the steps that begin a retry: after an error, or with `alone`."""
    retries = set[int]()
    begun = dict[int, Step]()  # the first step of each open transaction
    failed: dict[int, Step] = {}
    for number, step in enumerate(steps, start=1):
        process = step["process"]
        if process in failed and process not in begun and step["kind"] not in ENDS:
            before = failed.pop(process)
            if (step["kind"], step["table"]) == (before["kind"], before["table"]):
                retries.add(number)
        if step.get("alone"):
            retries.add(number)
        first = begun.setdefault(process, step)
        if step["error"]:
            failed[process] = first
        if step["kind"] in ENDS:
            del begun[process]
    return retries


def find_locks(steps: list[Step]) -> list[Lock]:
    """Return the locks that outlive their statement, one for each process and object."""
    names = Names(steps)
    held = dict[tuple[int, str], Lock]()
    for row, step in enumerate(steps, start=1):
        mode = step["lock"] or (NEW_ROW if step["kind"] == "INSERT" else "")
        first = step["until"]
        holds = first <= len(steps) and step["process"] in steps[first - 1]["in_transaction"]
        has_none = step["rows"] == 0 and mode != "advisory"
        if not mode or step["error"] or not holds or has_none:
            continue
        on = step["lock_name"] if mode == "advisory" else names.of(step)
        on = step["table"] if step["kind"] == "LOCK" else on
        lock = Lock(step["process"], first, find_release(steps, row), mode, on)
        before = held.get((lock.process, on))
        if before is None or before.last < lock.first:
            held[lock.process, on] = lock
    return list(held.values())


def find_release(steps: list[Step], number: int) -> int:
    """Return the step that releases the locks of step `number`: a transaction's end or an error."""
    process = steps[number - 1]["process"]
    savepoints = list[int]()
    for row, step in enumerate(steps, start=1):
        if step["process"] != process:
            continue
        if step["kind"] == "SAVEPOINT":
            savepoints.append(row)
        elif step["kind"] in ("RELEASE", "ROLLBACK TO") and savepoints:
            savepoints.pop()
        if row <= number:
            continue
        if step["kind"] in ENDS:
            return row
        if step["error"] and number > (savepoints or [0])[-1]:
            return int(step["until"])
    return len(steps) + 1
