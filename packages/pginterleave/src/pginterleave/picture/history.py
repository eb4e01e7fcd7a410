"""The steps of a schedule as a history: when each took effect, and on which rows."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from pginterleave.picture.wording import WRITES, Names, RecordedStep

IDENTITY = ("id", "key")  # the columns that identify a row; all visits of a link count as one row
ENDS = ("COMMIT", "ROLLBACK")
# When a step took effect: (5, 0) for step 5, and then (5, 3) for step 3, which waited until step 5.
Moment = tuple[int, int]
NEVER: Moment = (10**9, 0)  # later than every step


class History:
    """The `steps` of a schedule, each with its `number` from 1, and when each took effect."""

    def __init__(self, steps: list[RecordedStep], snapshots: bool = False) -> None:
        self.steps: list[RecordedStep] = [
            {**step, "number": n} for n, step in enumerate(steps, start=1)
        ]
        self.snapshots = snapshots  # whether a transaction reads as of its first query

    def done_at(self, step: RecordedStep) -> Moment:
        """Return when a step took effect: when it was sent, or after the step it waited for."""
        has_waited = step["until"] > step["number"]
        return step["until"], step["number"] if has_waited else 0

    def visible_at(self, step: RecordedStep) -> Moment:
        """Return when other processes see what a step has written, or NEVER."""
        if step["kind"] not in WRITES or step["error"] or step["rows"] == 0:
            return NEVER
        for later, has_savepoint in self._follow(step):
            if later["kind"] == "COMMIT":
                return self.done_at(later)
            if later["kind"] == "ROLLBACK" or (
                later["kind"] == "ROLLBACK TO" and not has_savepoint
            ):
                return NEVER
        is_open = step["process"] in self.steps[-1]["in_transaction"]
        return NEVER if is_open else self.done_at(step)  # in autocommit, at once

    def find_release(self, step: RecordedStep) -> int:
        """Return the step that releases the locks of `step`, or the number after the last step."""
        for later, has_savepoint in self._follow(step):
            if later["kind"] in ENDS:
                return int(later["number"])
            # PostgreSQL releases the locks when the error occurs, which may be after a wait.
            if later["error"] and not has_savepoint:
                return int(later["until"])
        return len(self.steps) + 1

    def _follow(self, step: RecordedStep) -> Iterator[tuple[RecordedStep, bool]]:
        """Yield the later steps of a process, and whether a savepoint after `step` is open."""
        savepoints = 0
        for later in self.after(step):
            if later["kind"] == "SAVEPOINT":
                savepoints += 1
            elif later["kind"] == "RELEASE":  # Django sends one after a ROLLBACK TO, too
                savepoints = max(savepoints - 1, 0)
            yield later, savepoints > 0

    def read_at(self, step: RecordedStep) -> Moment:
        """Return the moment whose committed rows a step reads."""
        moment = self.done_at(step)
        if self.snapshots:
            for earlier in reversed(self.before(step)):
                if earlier["kind"] in ENDS:
                    break
                moment = sent_at(earlier)
        return moment

    def before(self, step: RecordedStep) -> list[RecordedStep]:
        """Return the earlier steps of the same process."""
        earlier = self.steps[: step["number"] - 1]
        return [other for other in earlier if other["process"] == step["process"]]

    def after(self, step: RecordedStep) -> list[RecordedStep]:
        """Return the later steps of the same process."""
        later = self.steps[step["number"] :]
        return [other for other in later if other["process"] == step["process"]]

    def split_into_transactions(self) -> list[list[RecordedStep]]:
        """Return the steps of each transaction; in autocommit, those up to a COMMIT."""
        transactions: dict[tuple[int, int], list[RecordedStep]] = defaultdict(list)
        ended = Counter[int]()  # how many transactions of each process have ended
        for step in self.steps:
            process = step["process"]
            transactions[process, ended[process]].append(step)
            ended[process] += step["kind"] in ENDS
        return list(transactions.values())

    def committed_writes(self) -> list[RecordedStep]:
        return [step for step in self.steps if self.visible_at(step) < NEVER]

    def committed_writes_of(self, process: int) -> list[RecordedStep]:
        return [step for step in self.committed_writes() if step["process"] == process]

    def committed_writes_of_others(self, process: int) -> list[RecordedStep]:
        return [step for step in self.committed_writes() if step["process"] != process]

    def committed_writes_before(self, step: RecordedStep) -> list[RecordedStep]:
        """Return the writes of other processes that took effect before a step."""
        others = self.committed_writes_of_others(step["process"])
        return [other for other in others if self.done_at(other) < self.done_at(step)]

    def find_last_read(self, write: RecordedStep) -> RecordedStep | None:
        """Return the last read of the same rows by the process that writes, or None."""
        for step in reversed(self.before(write)):
            if step["subquery"] and write["table"] in step["tables"]:
                return step  # its subquery may have read any row
            if not may_share_row(step, write):
                continue
            if step["kind"] == "SELECT":
                return step
            is_other_row = step["kind"] == "INSERT" and not _share_identity(step, write)
            if step["kind"] in WRITES and not step["error"] and not is_other_row:
                return None  # since then the process knows the row by its own write
        return None


def sent_at(step: RecordedStep) -> Moment:
    return step["number"], 0


def may_have_read(read: RecordedStep, write: RecordedStep) -> bool:
    """Return whether `read` can read a row that `write` writes; a subquery may read any row."""
    if read["subquery"] or write["table"] != read["table"]:
        return not set(write["writes"]).isdisjoint(read["tables"])
    return may_share_row(read, write)


def would_have_read(read: RecordedStep, write: RecordedStep) -> bool:
    """Return whether `read` would return a row that `write` has written, if it were visible."""
    same_table = write["table"] == read["table"]
    return same_table and any(_may_equal(read["condition"], row) for row in _list_rows(write))


def may_share_row(step: RecordedStep, other: RecordedStep) -> bool:
    """Return whether two statements can be about the same row, as far as is known."""
    if not step["table"] or step["table"] != other["table"]:
        return False
    return any(_may_equal(*pair) for pair in product(_list_rows(step), _list_rows(other)))


def write_same_columns(step: RecordedStep, other: RecordedStep) -> bool:
    """Return whether two statements of a kind write the same columns of a table.

    A column may be set to any value, but to an expression only if both set it to the same one.
    """
    is_alike = all(step[name] == other[name] for name in ("kind", "table", "computed"))
    return is_alike and step["wrote"].keys() == other["wrote"].keys()


def _list_rows(step: RecordedStep) -> list[dict[str, str | None]]:
    """Return the known columns of each row that a step returns or writes."""
    known = {**step["condition"], **_keep_identity(step["wrote"])}
    if step["kind"] == "INSERT":
        known = step["wrote"]
    return [{**_keep_identity(row), **known} for row in step["read"]] or [known]


def _keep_identity(row: dict[str, str | None]) -> dict[str, str | None]:
    return {column: value for column, value in row.items() if column in IDENTITY}


def _share_identity(step: RecordedStep, other: RecordedStep) -> bool:
    """Whether two statements have a row with the same id or key."""
    pairs = product(_list_rows(step), _list_rows(other))
    return any(_keep_identity(a).items() & _keep_identity(b).items() for a, b in pairs)


def _may_equal(row: dict[str, str | None], other_row: dict[str, str | None]) -> bool:
    """Whether two rows may be the same: by an equal id or key, or else by all common columns."""
    equal = {column: row[column] == other_row[column] for column in row.keys() & other_row.keys()}
    identity = [equal[column] for column in IDENTITY if column in equal]
    return any(identity) if identity else all(equal.values())


def overwrites(read: RecordedStep, first: RecordedStep, second: RecordedStep) -> bool:
    """Return whether `second` sets a column that `first` has changed since `read`."""
    if second["kind"] != "UPDATE" or first["kind"] == "INSERT" or not may_share_row(first, second):
        return False
    row = _list_rows(first)[0]
    before: RecordedStep = next(
        (as_read for as_read in read["read"] if _may_equal(as_read, row)), {}
    )
    changed = {column for column, value in first["wrote"].items() if value != before.get(column)}
    return not changed.union(first["computed"]).isdisjoint(second["wrote"])


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


def cut_steps(steps: list[RecordedStep], number: int) -> list[RecordedStep]:
    """Return the first `number` steps, without the results that come after them."""
    # With 1 row, as 0 would say that a statement has found none.
    unknown = {"until": number + 1, "result": "", "read": [], "error": "", "message": "", "rows": 1,
               "pivot": False}  # fmt: skip
    return [{**step, **unknown} if step["until"] > number else step for step in steps[:number]]


def find_transactions(steps: list[RecordedStep]) -> list[Transaction]:
    """Return the transactions of more than one statement, in the order in which they end."""
    ended: list[Transaction] = []
    first_steps: dict[int, int] = {}  # of the open transactions, by process
    for number, step in enumerate(steps, start=1):
        for process in set(step["in_transaction"]) - set(first_steps):
            first_steps[process] = number
        for process in set(first_steps) - set(step["in_transaction"]):
            first = first_steps.pop(process)
            if step["process"] == process and step["kind"] in ENDS:
                ended.append(Transaction(process, first, number, step["kind"]))
    after = len(steps) + 1
    still_open = [Transaction(process, first, after, "") for process, first in first_steps.items()]
    return ended + still_open


def find_waits(steps: list[RecordedStep]) -> list[Wait]:
    return [
        Wait(step["process"], number, step["until"], tuple(step["waited_for"]))
        for number, step in enumerate(steps, start=1)
        if step["waited_for"]
    ]


def find_retries(steps: list[RecordedStep]) -> set[int]:
    """Return the numbers of the steps that begin a retry: after an error, or with `alone`."""
    history = History(steps)
    retries = {step["number"] for step in history.steps if step.get("alone")}
    failed = dict[
        int, RecordedStep
    ]()  # the first step of a transaction that has failed, by process
    for first, *others in history.split_into_transactions():
        before = failed.pop(first["process"], None)
        if before and (first["kind"], first["table"]) == (before["kind"], before["table"]):
            retries.add(first["number"])
        if any(step["error"] for step in (first, *others)):
            failed[first["process"]] = first
    return retries


def find_locks(steps: list[RecordedStep]) -> list[Lock]:
    """Return the locks that outlive their statement, one for each process and object."""
    history = History(steps)
    names = Names(steps)
    locks = dict[tuple[int, str], Lock]()
    for step in history.steps:
        mode = step["lock"] or (NEW_ROW if step["kind"] == "INSERT" else "")
        first = step["until"]
        is_kept = first <= len(steps) and step["process"] in steps[first - 1]["in_transaction"]
        found_no_row = step["rows"] == 0 and mode != "advisory"
        if not mode or step["error"] or not is_kept or found_no_row:
            continue
        locked = names.name_row(step)
        if mode == "advisory":
            locked = step["lock_name"]
        elif step["kind"] == "LOCK":
            locked = step["table"]
        lock = Lock(step["process"], first, history.find_release(step), mode, locked)
        earlier = locks.get((lock.process, locked))
        if earlier is None or earlier.last < lock.first:
            locks[lock.process, locked] = lock
    return list(locks.values())
