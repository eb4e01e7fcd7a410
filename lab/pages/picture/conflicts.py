"""Why a schedule violates its invariant: which step rests on which, and is wrong for it.

Ask for schedules that violate the invariant: in the others, nothing of this did harm.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from lab.pages.picture.wording import WRITES, Step

ROW = ("id", "key")  # what tells one row from another
DEADLOCK = "DeadlockDetected"  # which has no culprit: each waits for the other
NEVER = (10**9, 0, 0)
Moment = tuple[int, int, int]

STALE, LOST, UNSEEN, REFUSED, FOREIGN = "stale", "lost", "missed", "refused", "foreign"
LATE, ELSEWHERE, UNWRITTEN = "late", "elsewhere", "unwritten"


@dataclass(frozen=True)
class Conflict:
    """An arrow from one step to another, and what is to be said at both.

    STALE leads from a read to the write that rests on it, LOST from a write to the one that
    overwrote it, UNSEEN from a write to one that was made without knowing of it, REFUSED from a
    write to the step that ends in an error because of it, and FOREIGN from a write to the process
    that takes it for its own. LATE leads from a write to a read before its commit, and ELSEWHERE to
    a write by somebody who has looked at other tables only. UNWRITTEN is a read that no write
    follows. `source` is None where a single step says it all.
    """

    kind: str
    source: int | None
    target: int
    said_at_source: str
    said_at_target: str


def marks(conflicts: list[Conflict]) -> dict[int, list[str]]:
    """Return what is said of each step, by its number."""
    found: dict[int, list[str]] = {}
    for each in conflicts:
        for number, text in (
            (each.source, each.said_at_source),
            (each.target, each.said_at_target),
        ):
            if number and text and text not in found.setdefault(number, []):
                found[number].append(text)
    return found


def conflicts(steps: list[Step], *, snapshots: bool = False) -> list[Conflict]:
    """Return the conflicts of a schedule.

    `snapshots` says that a transaction reads as of its first query, as at the stricter levels.
    """
    history = History(steps, snapshots)
    found = [*_stale(history), *_refused(history), *_foreign(history)]
    # These happen in schedules that do no harm, too: they are to blame where nothing else is.
    found = found or [*_late(history), *_elsewhere(history)]
    return list(dict.fromkeys(found or _unwritten(history)))


class History:
    """The steps of a schedule, and when each of them took effect, for whom."""

    def __init__(self, steps: list[Step], snapshots: bool = False) -> None:
        self.steps, self.snapshots = steps, snapshots
        self.numbers = range(1, len(steps) + 1)

    def step(self, number: int) -> Step:
        """Return the step of that number, from 1."""
        return self.steps[number - 1]

    def done(self, number: int) -> Moment:
        """Return when a step took effect: one that waited did so after what it waited for.

        Of those that one step let go on, the one that was sent first got the lock first.
        """
        until = self.step(number)["until"]
        return until, int(until > number), number

    def visible(self, number: int) -> Moment:
        """Return when others see what a step has written: never, if it is undone."""
        step = self.step(number)
        if step["kind"] not in WRITES or step["error"] or step["rows"] == 0:
            return NEVER
        for later in self.of(step["process"], after=number):
            if self.step(later)["kind"] in ("COMMIT", "ROLLBACK", "ROLLBACK TO"):
                return self.done(later) if self.step(later)["kind"] == "COMMIT" else NEVER
        inside = step["process"] in self.steps[-1]["in_transaction"]
        return NEVER if inside else self.done(number)

    def read_at(self, number: int) -> Moment:
        """Return the moment as of which a step reads."""
        moment = self.done(number)
        if self.snapshots:
            for earlier in reversed(self.numbers[: number - 1]):
                if self.step(earlier)["process"] == self.step(number)["process"]:
                    if self.step(earlier)["kind"] in ("COMMIT", "ROLLBACK"):
                        break
                    moment = (earlier, 0, earlier)
        return moment

    def of(self, process: int, *, after: int) -> Iterator[int]:
        """Yield the numbers of the later steps of a process."""
        for number in self.numbers[after:]:
            if self.step(number)["process"] == process:
                yield number

    def written_by(self, process: int) -> Iterator[int]:
        """Yield the numbers of the steps by which a process has changed rows for good."""
        for number in self.of(process, after=0):
            if self.visible(number) < NEVER:
                yield number

    def writes(self, number: int) -> set[str]:
        """Return the tables in which the process of a step has changed rows for good."""
        own = self.written_by(self.step(number)["process"])
        return {table for each in own for table in self.step(each)["writes"]}

    def last_read(self, write: int) -> int | None:
        """Return the last read of the same rows by the process that writes."""
        own = self.step(write)
        for number in range(write - 1, 0, -1):
            step = self.step(number)
            if step["process"] != own["process"]:
                continue
            if step["subquery"] and own["table"] in step["tables"]:
                return number
            if same_rows(step, own):
                if step["kind"] == "SELECT":
                    return number
                if step["kind"] == "INSERT" and not same_identity(step, own):
                    continue  # a row that was not there, and another one, as far as it says
                if step["kind"] in WRITES and not step["error"]:
                    return None  # what it knows since then, it has written itself
        return None


def _stale(history: History) -> Iterator[Conflict]:
    """Yield reads that others made stale before the process wrote, and what that cost."""
    for write in history.numbers:
        own, read = history.step(write), history.last_read(write)
        if own["subquery"]:
            read = write
        if own["kind"] not in WRITES or read is None:
            continue
        since = (write, 0, write) if read == write else history.read_at(read)
        between = [
            number
            for number in history.numbers
            if history.step(number)["process"] != own["process"]
            and since < history.visible(number) < NEVER
            and history.done(number) < history.done(write)
            and may_have_read(history.step(read), history.step(number))
        ]
        if not between:
            continue
        process = history.step(between[0])["process"]
        said = f"rests on the stale read of step {read}"
        nothing = own["error"] or own["rows"] == 0
        if nothing:
            said = f"{'fails' if own['error'] else 'changes no row'}: what it read is out of date"
        if read != write:
            stale = f"stale read: process {process} commits a change after it"
            yield Conflict(STALE, read, write, stale, said)
        for number in () if nothing else between:
            if overwrites(history.step(read), history.step(number), own):
                said = f"lost update: overwritten by step {write}"
                yield Conflict(LOST, number, write, said, f"overwrites step {number}")
            else:
                yield Conflict(UNSEEN, number, write, "", f"has not seen step {number}")


def _refused(history: History) -> Iterator[Conflict]:
    """Yield the steps that end in an error, with the write that was there first."""
    for number in history.numbers:
        step = history.step(number)
        if not step["error"] or step["error"] == DEADLOCK:
            continue
        first = [
            other
            for other in history.numbers
            if history.step(other)["process"] != step["process"]
            and history.visible(other) < NEVER
            and history.done(other) < history.done(number)
            and same_rows(step, history.step(other))
        ]
        source = first[-1] if first else None
        by = f": step {source} was first" if source else ""
        yield Conflict(REFUSED, source, number, "", f"fails{by}")


def _foreign(history: History) -> Iterator[Conflict]:
    """Yield the last reads of rows that somebody else has written, of who writes none itself."""
    for number in history.numbers:
        step = history.step(number)
        later = history.of(step["process"], after=number)
        if step["kind"] != "SELECT" or not step["read"] or step["lock"] == "advisory":
            continue
        if any(same_rows(step, history.step(each)) for each in later):
            continue
        if any(same_rows(step, history.step(each)) for each in history.written_by(step["process"])):
            continue
        writers = [
            other
            for other in history.numbers
            if history.step(other)["process"] != step["process"]
            and history.visible(other) < history.read_at(number)
            and same_rows(step, history.step(other))
        ]
        if writers:
            process = history.step(writers[-1])["process"]
            said = f"takes what process {process} has written"
            yield Conflict(FOREIGN, writers[-1], number, "", said)
        elif not any(history.visible(each) < NEVER for each in history.numbers):
            yield Conflict(FOREIGN, None, number, "", "takes what was there before")


def _late(history: History) -> Iterator[Conflict]:
    """Yield reads during a write that others commit only later, by who writes something, too."""
    for read in history.numbers:
        step = history.step(read)
        reads = step["kind"] == "SELECT" or step["subquery"]
        if not reads or not any(history.written_by(step["process"])):
            continue
        moment = history.read_at(read) if step["kind"] == "SELECT" else (read, 0, read)
        for write in history.numbers:
            other = history.step(write)
            during = history.done(write) < moment < history.visible(write) < NEVER
            if other["process"] != step["process"] and during and may_have_read(step, other):
                said = f"is committed after step {read} has read"
                yield Conflict(LATE, write, read, said, f"has not seen step {write}")


def _elsewhere(history: History) -> Iterator[Conflict]:
    """Yield writes into a table at which their process has not looked, and who else wrote there."""
    for write in history.numbers:
        own = history.step(write)
        looked: list[str] = []
        for step in history.steps[:write]:
            if step["process"] == own["process"] and (step["kind"] == "SELECT" or step["subquery"]):
                looked += step["tables"]
        if history.visible(write) == NEVER or not looked or own["table"] in looked:
            continue
        for other in history.numbers[: write - 1]:
            step = history.step(other)
            if (
                step["process"] != own["process"]
                and step["table"] == own["table"]
                and history.visible(other) < NEVER
            ):
                said = f"has not seen step {other}: it rests on {looked[-1]}, not on {own['table']}"
                yield Conflict(ELSEWHERE, other, write, "", said)


def _unwritten(history: History) -> Iterator[Conflict]:
    """Yield the last read of each process that writes nothing, and the last write of each half."""
    for number in history.numbers:
        step = history.step(number)
        kinds = {each["kind"] for each in history.steps if each["process"] == step["process"]}
        later = {history.step(each)["kind"] for each in history.of(step["process"], after=number)}
        if step["kind"] == "SELECT" and "SELECT" not in later and kinds.isdisjoint(WRITES):
            yield Conflict(UNWRITTEN, None, number, "", "no write follows")
        for other in history.numbers if history.visible(number) < NEVER else ():
            more = history.writes(other) - history.writes(number)
            if more and same_write(step, history.step(other)):
                said = f"no write to {' and '.join(sorted(more))} follows"
                yield Conflict(UNWRITTEN, None, number, "", said)


def may_have_read(read: Step, write: Step) -> bool:
    """Return whether a step can have read what another one writes; a subquery may read any row."""
    if read["subquery"] or write["table"] != read["table"]:
        return not set(write["writes"]).isdisjoint(read["tables"])
    return same_rows(read, write)


def same_rows(step: Step, other: Step) -> bool:
    """Return whether two statements can be about the same row, as far as they say."""
    if not step["table"] or step["table"] != other["table"]:
        return False
    return any(_agree(one, two) for one in _rows(step) for two in _rows(other))


def same_identity(step: Step, other: Step) -> bool:
    """Return whether two statements say that they are about the same row."""
    pairs = [(one, two) for one in _rows(step) for two in _rows(other)]
    return any(one.get(name, "") == two.get(name) for one, two in pairs for name in ROW)


def same_write(step: Step, other: Step) -> bool:
    """Return whether two statements write the same columns of a table."""
    said = ("kind", "table", "computed")
    return all(step[name] == other[name] for name in said) and set(step["wrote"]) == set(
        other["wrote"]
    )


def _rows(step: Step) -> list[dict[str, str | None]]:
    """Return what is known of each row of a step: what it read, asked for and wrote."""
    known = {**step["condition"], **{c: v for c, v in step["wrote"].items() if c in ROW}}
    if step["kind"] == "INSERT":
        known = step["wrote"]
    told = [{c: v for c, v in row.items() if c in ROW} for row in step["read"]]
    return [{**row, **known} for row in told] or [known]


def _agree(one: dict[str, str | None], two: dict[str, str | None]) -> bool:
    shared = set(one) & set(two)
    identity = shared & set(ROW)
    if identity:
        return any(one[column] == two[column] for column in identity)
    return all(one[column] == two[column] for column in shared)


def overwrites(read: Step, first: Step, second: Step) -> bool:
    """Return whether `second` sets a column that `first` has changed since `read`."""
    if second["kind"] != "UPDATE" or first["kind"] == "INSERT" or not same_rows(first, second):
        return False
    row = _rows(first)[0]
    before: Step = next((each for each in read["read"] if _agree(each, row)), {})
    return any(
        column in first["computed"]
        or (column in first["wrote"] and first["wrote"][column] != before.get(column))
        for column in second["wrote"]
    )
