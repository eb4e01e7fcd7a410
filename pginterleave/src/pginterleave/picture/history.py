"""The steps of a schedule as a history: when each took effect for whom, and on which rows."""

from collections.abc import Iterator

from pginterleave.picture.wording import WRITES, Step

ROW = ("id", "key")  # what tells one row from another; all visits of a link are taken for one
NEVER = (10**9, 0, 0)
Moment = tuple[int, int, int]


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

    def written_by_others(self, process: int) -> Iterator[int]:
        """Yield the numbers of the steps by which other processes have changed rows for good."""
        for number in self.numbers:
            if self.step(number)["process"] != process and self.visible(number) < NEVER:
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


def may_have_read(read: Step, write: Step) -> bool:
    """Return whether a step can have read what another one writes; a subquery may read any row."""
    if read["subquery"] or write["table"] != read["table"]:
        return not set(write["writes"]).isdisjoint(read["tables"])
    return same_rows(read, write)


def would_have_read(read: Step, write: Step) -> bool:
    """Return whether the condition of a read allows a row that another step has written."""
    return write["table"] == read["table"] and any(
        _agree(read["condition"], row) for row in _rows(write)
    )


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
