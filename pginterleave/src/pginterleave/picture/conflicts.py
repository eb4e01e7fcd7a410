"""Why a schedule violates its invariant: which step rests on which, and is wrong for it.

Ask for schedules that violate the invariant: in the others, nothing of this did harm.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations, product

from pginterleave.picture.history import (
    ENDS,
    NEVER,
    History,
    may_have_read,
    overwrites,
    same_rows,
    same_write,
    would_have_read,
)
from pginterleave.picture.wording import WRITES, Step

DEADLOCK = "DeadlockDetected"  # which has no culprit: each waits for the other

STALE, LOST, UNSEEN, REFUSED, FOREIGN = "stale", "lost", "missed", "refused", "foreign"
LATE, ELSEWHERE, UNWRITTEN = "late", "elsewhere", "unwritten"
CYCLE, SKEW = "cycle", "skew"


@dataclass(frozen=True)
class Conflict:
    """An arrow from one step to another, and what is to be said at both.

    STALE leads from a read to the write that rests on it, LOST from a write to the one that
    overwrote it, UNSEEN from a write to one that was made without knowing of it, REFUSED from a
    write to the step that ends in an error because of it, and FOREIGN from a write to the process
    that takes it for its own. LATE leads from a write to a read before its commit, and ELSEWHERE to
    a write by somebody who has looked at other tables only. UNWRITTEN is a read or a DELETE that no
    write follows. CYCLE leads from a step of a deadlock to the one that it waits for, and SKEW from
    a read to a write that it does not see. `source` is None where a single step says it all.
    """

    kind: str
    source: int | None
    target: int
    said_at_source: str
    said_at_target: str


def marks(conflicts: list[Conflict]) -> dict[int, list[str]]:
    """Return what is said of each step, by its number."""
    return by_step(
        said
        for each in conflicts
        for said in ((each.source, each.said_at_source), (each.target, each.said_at_target))
    )


def by_step(said: Iterable[tuple[int | None, str]]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for number, text in said:
        if number and text and text not in found.setdefault(number, []):
            found[number].append(text)
    return found


def conflicts(steps: list[Step], *, snapshots: bool = False) -> list[Conflict]:
    """Return the conflicts of a schedule.

    `snapshots` says that a transaction reads as of its first query, as at the stricter levels.
    """
    history = History(steps, snapshots)
    found = [*_stale(history), *_refused(history), *_foreign(history), *_torn(history)]
    # These happen in schedules that do no harm, too: they are to blame where nothing else is.
    found = found or [*_late(history), *_elsewhere(history)]
    return list(dict.fromkeys(found or _unwritten(history)))


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
            for number in history.written_by_others(own["process"])
            if since < history.visible(number)
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
            for other in history.written_by_others(step["process"])
            if history.done(other) < history.done(number) and same_rows(step, history.step(other))
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
        if len(step["tables"]) > 1:  # it adds up what is in several rows, and takes none of them
            continue
        if any(same_rows(step, history.step(each)) for each in later):
            continue
        if any(same_rows(step, history.step(each)) for each in history.written_by(step["process"])):
            continue
        writers = [
            other
            for other in history.written_by_others(step["process"])
            if history.visible(other) < history.read_at(number)
            and same_rows(step, history.step(other))
        ]
        if writers:
            process = history.step(writers[-1])["process"]
            said = f"takes what process {process} has written"
            yield Conflict(FOREIGN, writers[-1], number, "", said)
        elif not any(history.visible(each) < NEVER for each in history.numbers):
            yield Conflict(FOREIGN, None, number, "", "takes what was there before")


def _torn(history: History) -> Iterator[Conflict]:
    """Yield reads of several tables that see one write of a process, and not the next one."""
    for read in history.numbers:
        step, moment = history.step(read), history.read_at(read)
        if step["kind"] != "SELECT" or len(step["tables"]) < 2:
            continue
        written = [
            other
            for other in history.written_by_others(step["process"])
            if may_have_read(step, history.step(other))
        ]
        for seen, unseen in permutations(written, 2):
            if history.step(seen)["process"] == history.step(unseen)["process"] and history.visible(
                seen
            ) < moment < history.visible(unseen):
                said = f"has seen step {seen}, and not step {unseen}"
                yield Conflict(LATE, unseen, read, f"is committed after step {read} has read", said)


def _late(history: History) -> Iterator[Conflict]:
    """Yield reads during a write that others commit only later, by who writes something, too."""
    for read in history.numbers:
        step = history.step(read)
        reads = step["kind"] == "SELECT" or step["subquery"]
        if not reads or not any(history.written_by(step["process"])):
            continue
        moment = history.read_at(read) if step["kind"] == "SELECT" else (read, 0, read)
        for write in history.written_by_others(step["process"]):
            during = history.done(write) < moment < history.visible(write)
            other = history.step(write)
            if during and (may_have_read(step, other) or would_have_read(step, other)):
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
        for other in history.written_by_others(own["process"]):
            if other < write and history.step(other)["table"] == own["table"]:
                said = f"has not seen step {other}: it rests on {looked[-1]}, not on {own['table']}"
                yield Conflict(ELSEWHERE, other, write, "", said)


def _unwritten(history: History) -> Iterator[Conflict]:
    """Yield the reads and deletes that no write follows, and the last write of each half."""
    for number in history.numbers:
        step = history.step(number)
        kinds = {each["kind"] for each in history.steps if each["process"] == step["process"]}
        later = {history.step(each)["kind"] for each in history.of(step["process"], after=number)}
        if step["kind"] == "DELETE" and later.isdisjoint(WRITES):
            said = "only its process knows now what it has deleted"
            yield Conflict(UNWRITTEN, None, number, "", said)
        if step["kind"] == "SELECT" and "SELECT" not in later and kinds.isdisjoint(WRITES):
            yield Conflict(UNWRITTEN, None, number, "", "no write follows")
        for other in history.numbers if history.visible(number) < NEVER else ():
            more = history.writes(other) - history.writes(number)
            if more and same_write(step, history.step(other)):
                said = f"no write to {' and '.join(sorted(more))} follows"
                yield Conflict(UNWRITTEN, None, number, "", said)


SERIALIZATION = "SerializationFailure"


def dependencies(steps: list[Step], *, snapshots: bool = False) -> list[Conflict]:
    """Return the cycles of a schedule; those of reads and writes where none was undone, or one."""
    history = History(steps, snapshots)
    return [*_deadlocks(history), *dict.fromkeys(_skew(history))]


def _deadlocks(history: History) -> Iterator[Conflict]:
    """Yield who waits for whom in a deadlock, from its victim on."""
    for victim in history.numbers:
        ended = history.step(victim)["until"]
        if history.step(victim)["error"] != DEADLOCK:
            continue
        waiting = {
            history.step(number)["process"]: number
            for number in history.numbers[:ended]
            if history.step(number)["waited_for"] and history.step(number)["until"] >= ended
        }
        cycle = _cycle(history, waiting, [victim])
        said = ", which waits for ".join(
            f"process {history.step(number)['process']}" for number in cycle[1:]
        )
        for number, other in pairwise(cycle):
            told = f"victim of a deadlock: waits for {said}" if number == victim else ""
            yield Conflict(CYCLE, number, other, told, "")


def _cycle(history: History, waiting: dict[int, int], path: list[int]) -> list[int]:
    """Return the waiting steps from the first of `path` on until it comes again."""
    for process in history.step(path[-1])["waited_for"]:
        number = waiting.get(process)
        if number == path[0]:
            return [*path, number]
        if number and number not in path:
            found = _cycle(history, waiting, [*path, number])
            if len(found) > len(path) + 1:
                return found
    return path


def _skew(history: History) -> Iterator[Conflict]:
    """Yield the reads of two transactions, and the writes of the other one that they do not see."""
    attempts = _transactions(history)
    for one, two in combinations(attempts, 2):
        if history.step(one[0])["process"] == history.step(two[0])["process"]:
            continue
        there, back = ([*_unseen(history, *both)] for both in ((one, two), (two, one)))
        writes = [history.step(write) for _, write in (*there, *back)]
        if there and back and not any(same_rows(*pair) for pair in combinations(writes, 2)):
            for read, write in sorted({*there, *back}):
                said = f"changes what step {read} has read"
                yield Conflict(SKEW, read, write, f"does not see step {write}", said)


def _unseen(history: History, one: list[int], two: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the reads of a transaction with the writes of another one that they do not see."""
    undone = any(history.step(number)["error"] == SERIALIZATION for number in two)
    for read, write in product(one, two):
        reads, wrote = history.step(read), history.step(write)
        seen = history.visible(write) < history.read_at(read)
        if (
            (reads["kind"] == "SELECT" or reads["subquery"])
            and wrote["kind"] in WRITES
            and (undone or history.visible(write) < NEVER)
            and not seen
            and may_have_read(reads, wrote)
        ):
            yield read, write


def _transactions(history: History) -> list[list[int]]:
    """Return the numbers of the steps of each transaction, its end left out."""
    found: dict[tuple[int, int], list[int]] = {}
    ended: dict[int, int] = {}
    for number in history.numbers:
        process = history.step(number)["process"]
        if history.step(number)["kind"] in ENDS:
            ended[process] = number
        else:
            found.setdefault((process, ended.get(process, 0)), []).append(number)
    return list(found.values())
