"""What lasts for several steps: transactions, locks and waits."""

from dataclasses import dataclass

from pginterleave.picture.wording import Names, Step

ENDS = ("COMMIT", "ROLLBACK")
NEW_ROW = "new row"  # which belongs to the transaction that has inserted it, until it ends


@dataclass(frozen=True)
class Transaction:
    """A transaction, from its first step to the one that ends it, which is `end`; or "" so far."""

    process: int
    first: int
    last: int
    end: str


@dataclass(frozen=True)
class Lock:
    """A lock that a process holds: its `mode`, and what it is `on`."""

    process: int
    first: int
    last: int
    mode: str
    on: str


@dataclass(frozen=True)
class Wait:
    """A step that waits for other processes, until the step `last`."""

    process: int
    first: int
    last: int
    waited_for: tuple[int, ...]


def prefix(steps: list[Step], number: int) -> list[Step]:
    """Return the first steps, as if nothing had happened after them: who waits is waiting."""
    unknown = {"until": number + 1, "result": "", "read": [], "error": "", "message": "", "rows": 1,
               "pivot": False}  # fmt: skip
    return [{**step, **unknown} if step["until"] > number else step for step in steps[:number]]


def transactions(steps: list[Step]) -> list[Transaction]:
    """Return the transactions of more than one statement, in the order in which they end."""
    found: list[Transaction] = []
    since: dict[int, int] = {}
    for row, step in enumerate(steps, start=1):
        for process in set(step["in_transaction"]) - set(since):
            since[process] = row
        for process in set(since) - set(step["in_transaction"]):
            first = since.pop(process)
            if step["process"] == process and step["kind"] in ENDS:
                found.append(Transaction(process, first, row, step["kind"]))
    return found + [
        Transaction(process, first, len(steps) + 1, "") for process, first in since.items()
    ]


def waits(steps: list[Step]) -> list[Wait]:
    """Return who waits for whom."""
    return [
        Wait(step["process"], row, step["until"], tuple(step["waited_for"]))
        for row, step in enumerate(steps, start=1)
        if step["waited_for"]
    ]


def tries(steps: list[Step]) -> set[int]:
    """Return the steps by which a process begins again: what has ended in an error, or `alone`."""
    found, begun = set[int](), dict[int, Step]()  # the first step of each open transaction
    failed: dict[int, Step] = {}
    for number, step in enumerate(steps, start=1):
        process = step["process"]
        if process in failed and process not in begun and step["kind"] not in ENDS:
            before = failed.pop(process)
            if (step["kind"], step["table"]) == (before["kind"], before["table"]):
                found.add(number)
        if step.get("alone"):
            found.add(number)
        first = begun.setdefault(process, step)
        if step["error"]:
            failed[process] = first
        if step["kind"] in ENDS:
            del begun[process]
    return found


def locks(steps: list[Step]) -> list[Lock]:
    """Return the locks that are held for longer than the statement that takes them.

    Each thing is locked once by a process: the mode is that of the first statement.
    """
    names, found = Names(steps), dict[tuple[int, str], Lock]()
    for row, step in enumerate(steps, start=1):
        mode = step["lock"] or (NEW_ROW if step["kind"] == "INSERT" else "")
        first = step["until"]
        holds = first <= len(steps) and step["process"] in steps[first - 1]["in_transaction"]
        if (
            not mode
            or step["error"]
            or not holds
            or (step["rows"] == 0 and step["lock"] != "advisory")
        ):
            continue
        on = step["lock_name"] if mode == "advisory" else names.of(step)
        on = step["table"] if step["kind"] == "LOCK" else on
        lock = Lock(step["process"], first, released(steps, row), mode, on)
        before = found.get((lock.process, on))
        if before is None or before.last < lock.first:
            found[lock.process, on] = lock
    return list(found.values())


def released(steps: list[Step], number: int) -> int:
    """Return the step that releases what step `number` has locked: the end, or an error."""
    process, savepoints = steps[number - 1]["process"], list[int]()
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
