"""Why a schedule violates its invariant: which step is wrong because of which other step.

Call find_conflicts() for schedules that violate the invariant: in others, a conflict did no harm.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations, product

from pginterleave.picture.history import (
    ENDS,
    NEVER,
    History,
    may_have_read,
    may_share_row,
    overwrites,
    sent_at,
    would_have_read,
    write_same_columns,
)
from pginterleave.picture.wording import WRITES, Step

DEADLOCK = "DeadlockDetected"  # no single step causes it: the processes wait for each other
SERIALIZATION = "SerializationFailure"

STALE = "stale"  # from a read to the write that rests on it
LOST = "lost"  # from a write to the write that overwrote it
UNSEEN = "missed"  # from a write to a later write whose process has not seen it
REFUSED = "refused"  # from a write to the step that fails because of it
FOREIGN = "foreign"  # from a write to a process's read that takes the row for its own
LATE = "late"  # from a write to a read before its commit
ELSEWHERE = "elsewhere"  # from a write to a write whose process has read other tables only
UNWRITTEN = "unwritten"  # a read or a DELETE that no write follows
CYCLE = "cycle"  # from a step of a deadlock to the step that it waits for
SKEW = "skew"  # from a read to a write that it does not see


@dataclass(frozen=True)
class Conflict:
    """An arrow from the step `source`, if there is one, to the step `target`, each with a text."""

    kind: str
    source: int | None
    target: int
    text_at_source: str
    text_at_target: str


def find_marks(conflicts: list[Conflict]) -> dict[int, list[str]]:
    """Return the texts for each step, by its number."""
    texts: list[tuple[int | None, str]] = []
    for conflict in conflicts:
        texts.append((conflict.source, conflict.text_at_source))
        texts.append((conflict.target, conflict.text_at_target))
    return group_by_step(texts)


def group_by_step(numbered_texts: Iterable[tuple[int | None, str]]) -> dict[int, list[str]]:
    texts: dict[int, list[str]] = {}
    for number, text in numbered_texts:
        if number and text and text not in texts.setdefault(number, []):
            texts[number].append(text)
    return texts


def find_conflicts(steps: list[Step], *, snapshots: bool = False) -> list[Conflict]:
    """Return the conflicts; with `snapshots`, a transaction reads as of its first query."""
    history = History(steps, snapshots)
    explanations = [*_find_stale_reads(history), *_find_refused_steps(history)]
    explanations += [*_find_foreign_reads(history), *_find_torn_reads(history)]
    # These conflicts also occur in harmless schedules: they count only if there is no other.
    explanations = explanations or [*_find_late_commits(history), *_find_writes_elsewhere(history)]
    return list(dict.fromkeys(explanations or _find_missing_writes(history)))


def _find_stale_reads(history: History) -> Iterator[Conflict]:
    """Yield reads that other processes made stale before the write, and which write was lost."""
    for write in history.steps:
        read = write if write["subquery"] else history.last_read(write)
        if write["kind"] not in WRITES or read is None:
            continue
        since = sent_at(write) if read is write else history.read_at(read)
        earlier = history.writes_before(write)
        later = [other for other in earlier if since < history.visible_at(other)]
        between = [other for other in later if may_have_read(read, other)]
        if not between:
            continue
        number = write["number"]
        text = f"rests on the stale read of step {read['number']}"
        has_no_effect = write["error"] or write["rows"] == 0
        if has_no_effect:
            what = "fails" if write["error"] else "changes no row"
            text = f"{what}: what it read is out of date"
        if read is not write:
            stale = f"stale read: process {between[0]['process']} commits a change after it"
            yield Conflict(STALE, read["number"], number, stale, text)
        for other in between if not has_no_effect else ():
            if overwrites(read, other, write):
                lost = f"lost update: overwritten by step {number}"
                text = f"overwrites step {other['number']}"
                yield Conflict(LOST, other["number"], number, lost, text)
            else:
                text = f"has not seen step {other['number']}"
                yield Conflict(UNSEEN, other["number"], number, "", text)


def _find_refused_steps(history: History) -> Iterator[Conflict]:
    """Yield the steps that end in an error, with the write that caused the error."""
    for step in history.steps:
        if not step["error"] or step["error"] == DEADLOCK:
            continue
        earlier = history.writes_before(step)
        causes = [other["number"] for other in earlier if may_share_row(step, other)]
        source = causes[-1] if causes else None
        by = f": step {source} was first" if source else ""
        yield Conflict(REFUSED, source, step["number"], "", f"fails{by}")


def _find_foreign_reads(history: History) -> Iterator[Conflict]:
    """Yield the last reads of rows that another process has written, and this process has not."""
    for step in history.steps:
        if step["kind"] != "SELECT" or not step["read"] or step["lock"] == "advisory":
            continue
        if len(step["tables"]) > 1:  # it aggregates several rows, and takes none of them
            continue
        own = (*history.after(step), *history.writes_of(step["process"]))
        if any(may_share_row(step, write) for write in own):
            continue
        others = history.writes_of_others(step["process"])
        seen = [other for other in others if history.visible_at(other) < history.read_at(step)]
        writers = [other for other in seen if may_share_row(step, other)]
        if writers:
            text = f"takes what process {writers[-1]['process']} has written"
            yield Conflict(FOREIGN, writers[-1]["number"], step["number"], "", text)
        elif all(history.visible_at(step) == NEVER for step in history.steps):
            yield Conflict(FOREIGN, None, step["number"], "", "takes what was there before")


def _find_torn_reads(history: History) -> Iterator[Conflict]:
    """Yield reads of several tables that see one write of a process and not its next one."""
    for read in history.steps:
        moment = history.read_at(read)
        if read["kind"] != "SELECT" or len(read["tables"]) < 2:
            continue
        others = history.writes_of_others(read["process"])
        written = [other for other in others if may_have_read(read, other)]
        for seen, unseen in permutations(written, 2):
            torn = history.visible_at(seen) < moment < history.visible_at(unseen)
            if torn and seen["process"] == unseen["process"]:
                late = f"is committed after step {read['number']} has read"
                text = f"has seen step {seen['number']}, and not step {unseen['number']}"
                yield Conflict(LATE, unseen["number"], read["number"], late, text)


def _find_late_commits(history: History) -> Iterator[Conflict]:
    """Yield reads that come between a write and its commit, if their process writes, too."""
    for read in history.steps:
        reads = read["kind"] == "SELECT" or read["subquery"]
        if not reads or not history.writes_of(read["process"]):
            continue
        moment = history.read_at(read) if read["kind"] == "SELECT" else sent_at(read)
        for write in history.writes_of_others(read["process"]):
            during = history.done_at(write) < moment < history.visible_at(write)
            if during and (may_have_read(read, write) or would_have_read(read, write)):
                late = f"is committed after step {read['number']} has read"
                text = f"has not seen step {write['number']}"
                yield Conflict(LATE, write["number"], read["number"], late, text)


def _find_writes_elsewhere(history: History) -> Iterator[Conflict]:
    """Yield writes into a table that their process has not read, with the earlier writes there."""
    for write in history.steps:
        looked: list[str] = []
        for step in (*history.before(write), write):
            if step["kind"] == "SELECT" or step["subquery"]:
                looked += step["tables"]
        if history.visible_at(write) == NEVER or not looked or write["table"] in looked:
            continue
        for other in history.writes_of_others(write["process"]):
            number = other["number"]
            table = write["table"]
            if number < write["number"] and other["table"] == table:
                text = f"has not seen step {number}: it rests on {looked[-1]}, not on {table}"
                yield Conflict(ELSEWHERE, number, write["number"], "", text)


def _find_missing_writes(history: History) -> Iterator[Conflict]:
    """Yield the reads and deletes that no write follows, and writes of half the tables only."""
    for step in history.steps:
        kinds = {other["kind"] for other in history.steps if other["process"] == step["process"]}
        later = {other["kind"] for other in history.after(step)}
        if step["kind"] == "DELETE" and later.isdisjoint(WRITES):
            text = "only its process knows now what it has deleted"
            yield Conflict(UNWRITTEN, None, step["number"], "", text)
        if step["kind"] == "SELECT" and "SELECT" not in later and kinds.isdisjoint(WRITES):
            yield Conflict(UNWRITTEN, None, step["number"], "", "no write follows")
        for other in history.steps if history.visible_at(step) < NEVER else ():
            tables = history.find_written_tables(step["process"])
            missing = sorted(history.find_written_tables(other["process"]) - tables)
            if missing and write_same_columns(step, other):
                text = f"no write to {' and '.join(missing)} follows"
                yield Conflict(UNWRITTEN, None, step["number"], "", text)


def find_cycles(steps: list[Step], *, snapshots: bool = False) -> list[Conflict]:
    """Return the cycles of a schedule: of waits (deadlock), or of reads and writes (write skew).

    PostgreSQL ends one transaction of each, so a cycle is shown even if the invariant holds.
    """
    history = History(steps, snapshots)
    return [*_find_deadlocks(history), *dict.fromkeys(_find_skews(history))]


def _find_deadlocks(history: History) -> Iterator[Conflict]:
    """Yield which step waits for which in a deadlock, from its victim on."""
    for victim in history.steps:
        ended = victim["until"]
        if victim["error"] != DEADLOCK:
            continue
        blocked = [step for step in history.steps[:ended] if step["waited_for"]]
        waiting = {step["process"]: step for step in blocked if step["until"] >= ended}
        cycle = _close_cycle(waiting, [victim])
        waits = ", which waits for ".join(f"process {step['process']}" for step in cycle[1:])
        for step, other in pairwise(cycle):
            text = f"victim of a deadlock: waits for {waits}" if step is victim else ""
            yield Conflict(CYCLE, step["number"], other["number"], text, "")


def _close_cycle(waiting: dict[int, Step], path: list[Step]) -> list[Step]:
    """Return the cycle of waiting steps that begins and ends with the first step of `path`."""
    for process in path[-1]["waited_for"]:
        step = waiting.get(process)
        if step is path[0]:
            return [*path, step]
        if step and step not in path:
            cycle = _close_cycle(waiting, [*path, step])
            if len(cycle) > len(path) + 1:
                return cycle
    return path


def _find_skews(history: History) -> Iterator[Conflict]:
    """Yield the reads of two transactions with the writes of the other that they do not see."""
    # The steps of each transaction, by its process, and the number of the end before it.
    transactions: dict[tuple[int, int], list[Step]] = {}
    ended: dict[int, int] = {}
    for step in history.steps:
        process = step["process"]
        if step["kind"] in ENDS:
            ended[process] = step["number"]
        else:
            transactions.setdefault((process, ended.get(process, 0)), []).append(step)
    for first, second in combinations(transactions.values(), 2):
        if first[0]["process"] == second[0]["process"]:
            continue
        there = list(_find_unseen_writes(history, first, second))
        back = list(_find_unseen_writes(history, second, first))
        writes = [write for _, write in there + back]
        if there and back and not any(may_share_row(*pair) for pair in combinations(writes, 2)):
            numbers = {(read["number"], write["number"]) for read, write in there + back}
            for read, write in sorted(numbers):
                text = f"changes what step {read} has read"
                yield Conflict(SKEW, read, write, f"does not see step {write}", text)


def _find_unseen_writes(
    history: History, steps: list[Step], others: list[Step]
) -> Iterator[tuple[Step, Step]]:
    """Yield the reads of one transaction with the writes of another that they do not see."""
    undone = any(other["error"] == SERIALIZATION for other in others)
    for read, write in product(steps, others):
        if (
            (read["kind"] == "SELECT" or read["subquery"])
            and write["kind"] in WRITES
            and (undone or history.visible_at(write) < NEVER)
            and history.visible_at(write) >= history.read_at(read)
            and may_have_read(read, write)
        ):
            yield read, write
