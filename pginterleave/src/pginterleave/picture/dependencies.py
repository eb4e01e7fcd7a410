"""Two transactions that depend on each other: a cycle of waits, or of reads and writes.

PostgreSQL ends one of a deadlock, and at SERIALIZABLE one of a write skew. Then its work is undone,
and nothing of it did harm: this is to be shown of schedules in which the invariant holds, too.
"""

from collections.abc import Iterator
from itertools import combinations, pairwise, product

from pginterleave.picture.conflicts import CYCLE, DEADLOCK, SKEW, Conflict
from pginterleave.picture.history import NEVER, History, may_have_read, same_rows
from pginterleave.picture.spans import ENDS
from pginterleave.picture.wording import WRITES, Step

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
