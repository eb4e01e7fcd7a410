"""The steps of a schedule as a history: when each took effect, and on which rows."""

from itertools import product
from typing import NamedTuple

from pginterleave.picture.wording import WRITES, Names, Step

ROW = ("id", "key")  # the columns that identify a row; all visits of a link count as one row
# When a step took effect: the step after which, whether the step had waited, and its own number.
Moment = tuple[int, int, int]
NEVER: Moment = (10**9, 0, 0)


class History:
    """The `steps` of a schedule, each with its `number` from 1, and when each took effect."""

    def __init__(self, steps: list[Step], snapshots: bool = False) -> None:
        self.steps: list[Step] = [{**step, "number": n} for n, step in enumerate(steps, start=1)]
        self.snapshots = snapshots

    def done_at(self, step: Step) -> Moment:
        """Return when a step took effect: after the step that woke it, and in the order sent."""
        return step["until"], int(step["until"] > step["number"]), step["number"]

    def visible_at(self, step: Step) -> Moment:
        """Return when other processes see a step's writes: NEVER if they were undone."""
        if step["kind"] not in WRITES or step["error"] or step["rows"] == 0:
            return NEVER
        savepoints = 0  # that were set after the step, and are not released yet
        for later in self.after(step):
            match later["kind"]:
                case "SAVEPOINT":
                    savepoints += 1
                case "RELEASE":
                    savepoints = max(savepoints - 1, 0)
                case "COMMIT":
                    return self.done_at(later)
                case "ROLLBACK TO" if savepoints:
                    continue  # which undoes only what came after the savepoint
                case "ROLLBACK" | "ROLLBACK TO":
                    return NEVER
        inside = step["process"] in self.steps[-1]["in_transaction"]
        return NEVER if inside else self.done_at(step)

    def read_at(self, step: Step) -> Moment:
        """Return the moment of the snapshot that a step reads."""
        moment = self.done_at(step)
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
        return [step for step in self.steps if self.visible_at(step) < NEVER]

    def writes_of(self, process: int) -> list[Step]:
        return [step for step in self.writes() if step["process"] == process]

    def find_written_tables(self, process: int) -> set[str]:
        return set[str]().union(*(write["writes"] for write in self.writes_of(process)))

    def writes_of_others(self, process: int) -> list[Step]:
        return [step for step in self.writes() if step["process"] != process]

    def writes_before(self, step: Step) -> list[Step]:
        """Return the writes of other processes that took effect before a step."""
        others = self.writes_of_others(step["process"])
        return [other for other in others if self.done_at(other) < self.done_at(step)]

    def last_read(self, write: Step) -> Step | None:
        """Return the last read of the same rows by the process that writes."""
        for step in reversed(self.before(write)):
            if step["subquery"] and write["table"] in step["tables"]:
                return step
            if may_share_row(step, write):
                if step["kind"] == "SELECT":
                    return step
                triples = product(_list_rows(step), _list_rows(write), ROW)
                is_same = any(row.get(name, "") == other.get(name) for row, other, name in triples)
                if step["kind"] == "INSERT" and not is_same:
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
    return may_share_row(read, write)


def would_have_read(read: Step, write: Step) -> bool:
    """Return whether a row that `write` has written meets the condition of `read`."""
    same_table = write["table"] == read["table"]
    return same_table and any(_may_equal(read["condition"], row) for row in _list_rows(write))


def may_share_row(step: Step, other: Step) -> bool:
    """Return whether two statements can be about the same row, as far as is known."""
    if not step["table"] or step["table"] != other["table"]:
        return False
    return any(_may_equal(*pair) for pair in product(_list_rows(step), _list_rows(other)))


def write_same_columns(step: Step, other: Step) -> bool:
    """Return whether two statements write the same columns of a table."""
    same = all(step[name] == other[name] for name in ("kind", "table", "computed"))
    return same and set(step["wrote"]) == set(other["wrote"])


def _list_rows(step: Step) -> list[dict[str, str | None]]:
    """Return the known columns of each row of a step: from its result, condition and writes."""
    known = {**step["condition"], **_keep_identity(step["wrote"])}
    if step["kind"] == "INSERT":
        known = step["wrote"]
    return [{**_keep_identity(row), **known} for row in step["read"]] or [known]


def _keep_identity(row: dict[str, str | None]) -> dict[str, str | None]:
    return {column: value for column, value in row.items() if column in ROW}


def _may_equal(row: dict[str, str | None], other_row: dict[str, str | None]) -> bool:
    """Whether both have an equal id or key, or else nothing in them differs."""
    equal = {column: row[column] == other_row[column] for column in row.keys() & other_row.keys()}
    identity = [equal[column] for column in ROW if column in equal]
    return any(identity) if identity else all(equal.values())


def overwrites(read: Step, first: Step, second: Step) -> bool:
    """Return whether `second` sets a column that `first` has changed since `read`."""
    if second["kind"] != "UPDATE" or first["kind"] == "INSERT" or not may_share_row(first, second):
        return False
    row = _list_rows(first)[0]
    before: Step = next((candidate for candidate in read["read"] if _may_equal(candidate, row)), {})
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
        elif step["kind"] == "RELEASE" and savepoints:  # Django sends one after a ROLLBACK TO, too
            savepoints.pop()
        if row <= number:
            continue
        if step["kind"] in ENDS:
            return row
        last_savepoint = savepoints[-1] if savepoints else 0
        if step["error"] and number > last_savepoint:
            return int(step["until"])
    return len(steps) + 1
