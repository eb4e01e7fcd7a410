"""Why a schedule violates its invariant: which step is wrong because of which other step.

Call find_conflicts() for schedules that violate the invariant: in others, a conflict did no harm.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations, product

from pginterleave.picture.history import (
    NEVER,
    History,
    may_have_read,
    may_share_row,
    overwrites,
    sent_at,
    would_have_read,
    write_same_columns,
)
from pginterleave.picture.wording import WRITES, RecordedStep

DEADLOCK_ERROR = "DeadlockDetected"  # no single step causes it: processes wait for each other
SERIALIZATION_ERROR = "SerializationFailure"

# The kinds of conflicts, which are names of styles.
STALE = "stale"  # from a read that is out of date to the write that rests on it
LOST = "lost"  # from a write to the write that overwrote it
UNSEEN = "missed"  # from a write to a later write whose process has not seen it
REFUSED = "refused"  # from a write to the step that fails because of it
FOREIGN = "foreign"  # from a write to a process's read that takes the row for its own
LATE = "late"  # from a write to a read before its commit
ELSEWHERE = "elsewhere"  # from a write to a write whose process has read other tables only
UNWRITTEN = "unwritten"  # a read or a DELETE that no write follows
DEADLOCK = "cycle"  # from a step of a deadlock to the step that it waits for
SKEW = "skew"  # of a write skew: from a read to a write that it does not see


@dataclass(frozen=True)
class Conflict:
    """An arrow from the step `source`, if there is one, to the step `target`, each with a text."""

    kind: str
    source: int | None
    target: int
    text_at_target: str
    text_at_source: str = ""


def find_marks(conflicts: Iterable[Conflict]) -> dict[int, list[str]]:
    """Return the texts of conflicts for each step, by its number."""
    marks: dict[int, list[str]] = {}
    for conflict in conflicts:
        at_source = conflict.source, conflict.text_at_source
        at_target = conflict.target, conflict.text_at_target
        for number, text in (at_source, at_target):
            if number and text and text not in marks.setdefault(number, []):
                marks[number].append(text)
    return marks


def find_conflicts(steps: list[RecordedStep], *, snapshots: bool = False) -> list[Conflict]:
    """Return the conflicts; with `snapshots`, a transaction reads as of its first query."""
    history = History(steps, snapshots)
    conflicts = [*_find_stale_reads(history), *_find_refused_steps(history)]
    conflicts += [*_find_foreign_reads(history), *_find_torn_reads(history)]
    # Harmless schedules have the next kinds, too: these count only if no other kind was found.
    conflicts = conflicts or [*_find_late_commits(history), *_find_writes_elsewhere(history)]
    conflicts = conflicts or [*_find_missing_writes(history), *_find_partial_writes(history)]
    return list(dict.fromkeys(conflicts))


def _find_stale_reads(history: History) -> Iterator[Conflict]:
    """Yield the writes that rest on a stale read, with the writes that the read has not seen."""
    for write in history.steps:
        # A statement with a subquery reads, too: when it is sent, which may be before a wait.
        read = write if write["subquery"] else history.find_last_read(write)
        if write["kind"] not in WRITES or read is None:
            continue
        read_moment = sent_at(write) if read is write else history.read_at(read)
        unseen_writes = [
            other
            for other in history.committed_writes_before(write)
            if read_moment < history.visible_at(other) and may_have_read(read, other)
        ]
        if unseen_writes and read is not write:
            yield _describe_stale_read(read, write, unseen_writes[0]["process"])
        if write["error"] or write["rows"] == 0:
            continue  # it has changed nothing
        number = write["number"]
        for other in unseen_writes:
            if overwrites(read, other, write):
                lost = f"lost update: overwritten by step {number}"
                text = f"overwrites step {other['number']}"
                yield Conflict(LOST, other["number"], number, text, text_at_source=lost)
            else:
                text = f"has not seen step {other['number']}"
                yield Conflict(UNSEEN, other["number"], number, text)


def _describe_stale_read(read: RecordedStep, write: RecordedStep, writer: int) -> Conflict:
    """Return the conflict of a write with a read that another process, `writer`, made stale."""
    text = f"rests on the stale read of step {read['number']}"
    if write["error"]:
        text = "fails: what it read is out of date"
    elif write["rows"] == 0:
        text = "changes no row: what it read is out of date"
    stale = f"stale read: process {writer} commits a change after it"
    return Conflict(STALE, read["number"], write["number"], text, text_at_source=stale)


def _find_refused_steps(history: History) -> Iterator[Conflict]:
    """Yield the steps that end in an error, with the write that caused the error."""
    for step in history.steps:
        if not step["error"] or step["error"] == DEADLOCK_ERROR:
            continue
        earlier = history.committed_writes_before(step)
        causes = [other["number"] for other in earlier if may_share_row(step, other)]
        source = causes[-1] if causes else None
        by = f": step {source} was first" if source else ""
        yield Conflict(REFUSED, source, step["number"], f"fails{by}")


def _find_foreign_reads(history: History) -> Iterator[Conflict]:
    """Yield reads of a row that another process has written, and not the process that reads."""
    for read in history.steps:
        if read["kind"] != "SELECT" or not read["read"] or read["lock"] == "advisory":
            continue
        if len(read["tables"]) > 1:  # it aggregates several rows, and takes none of them
            continue
        # A later read of the row counts instead of this one.
        own_steps = (*history.after(read), *history.committed_writes_of(read["process"]))
        if any(may_share_row(read, step) for step in own_steps):
            continue
        foreign_writes = [
            write
            for write in history.committed_writes_of_others(read["process"])
            if history.visible_at(write) < history.read_at(read) and may_share_row(read, write)
        ]
        if foreign_writes:
            write = foreign_writes[-1]
            text = f"takes what process {write['process']} has written"
            yield Conflict(FOREIGN, write["number"], read["number"], text)
        elif not history.committed_writes():  # it takes an old row
            yield Conflict(FOREIGN, None, read["number"], "takes what was there before")


def _find_torn_reads(history: History) -> Iterator[Conflict]:
    """Yield reads of several tables that see one write of a process and not a later one."""
    for read in history.steps:
        if read["kind"] != "SELECT" or len(read["tables"]) < 2:
            continue
        moment = history.read_at(read)
        others = history.committed_writes_of_others(read["process"])
        writes = [other for other in others if may_have_read(read, other)]
        for seen, unseen in permutations(writes, 2):
            is_between = history.visible_at(seen) < moment < history.visible_at(unseen)
            if is_between and seen["process"] == unseen["process"]:
                text = f"has seen step {seen['number']}, and not step {unseen['number']}"
                late = f"is committed after step {read['number']} has read"
                yield Conflict(LATE, unseen["number"], read["number"], text, late)


def _find_late_commits(history: History) -> Iterator[Conflict]:
    """Yield reads that come between a write and its commit, if their process writes, too."""
    for read in history.steps:
        is_select = read["kind"] == "SELECT"
        is_read = is_select or read["subquery"]
        if not is_read or not history.committed_writes_of(read["process"]):
            continue
        moment = history.read_at(read) if is_select else sent_at(read)
        for write in history.committed_writes_of_others(read["process"]):
            is_between = history.done_at(write) < moment < history.visible_at(write)
            if is_between and (may_have_read(read, write) or would_have_read(read, write)):
                text = f"has not seen step {write['number']}"
                late = f"is committed after step {read['number']} has read"
                yield Conflict(LATE, write["number"], read["number"], text, late)


def _find_writes_elsewhere(history: History) -> Iterator[Conflict]:
    """Yield writes into a table that their process has not read, with the earlier writes there."""
    for write in history.steps:
        table = write["table"]
        read_tables: list[str] = []
        for step in (*history.before(write), write):
            if step["kind"] == "SELECT" or step["subquery"]:
                read_tables += step["tables"]
        if history.visible_at(write) == NEVER or not read_tables or table in read_tables:
            continue
        for other in history.committed_writes_of_others(write["process"]):
            number = other["number"]
            if number < write["number"] and other["table"] == table:
                text = f"has not seen step {number}: it rests on {read_tables[-1]}, not on {table}"
                yield Conflict(ELSEWHERE, number, write["number"], text)


def _find_missing_writes(history: History) -> Iterator[Conflict]:
    """Yield each DELETE that no write follows, and the last SELECT of a process without writes."""
    for step in history.steps:
        kinds = {other["kind"] for other in history.steps if other["process"] == step["process"]}
        later = {other["kind"] for other in history.after(step)}
        if step["kind"] == "DELETE" and later.isdisjoint(WRITES):
            text = "only its process knows now what it has deleted"
            yield Conflict(UNWRITTEN, None, step["number"], text)
        if step["kind"] == "SELECT" and "SELECT" not in later and kinds.isdisjoint(WRITES):
            yield Conflict(UNWRITTEN, None, step["number"], "no write follows")


def _find_partial_writes(history: History) -> Iterator[Conflict]:
    """Yield writes that another process also makes, and then writes to more tables."""
    tables = defaultdict[int, set[str]](set)  # that are written, by process
    for write in history.committed_writes():
        tables[write["process"]].update(write["writes"])
    for write, other in product(history.committed_writes(), history.steps):
        missing = sorted(tables[other["process"]] - tables[write["process"]])
        if missing and write_same_columns(write, other):
            text = f"no write to {' and '.join(missing)} follows"
            yield Conflict(UNWRITTEN, None, write["number"], text)


def find_cycles(steps: list[RecordedStep], *, snapshots: bool = False) -> list[Conflict]:
    """Return the deadlocks, which are cycles of waits, and the write skews: of reads and writes."""
    history = History(steps, snapshots)
    return [*_find_deadlocks(history), *dict.fromkeys(_find_skews(history))]


def _find_deadlocks(history: History) -> Iterator[Conflict]:
    """Yield, for each step of a deadlock, which step it waits for; the victim's step is first."""
    for victim in history.steps:
        if victim["error"] != DEADLOCK_ERROR:
            continue
        end = victim["until"]
        sent = [step for step in history.steps[:end] if step["waited_for"]]
        waiting = {step["process"]: step for step in sent if step["until"] >= end}
        cycle = _find_cycle_of_waits(waiting, [victim])
        waits = ", which waits for ".join(f"process {step['process']}" for step in cycle[1:])
        for step, other in pairwise(cycle):
            text = f"victim of a deadlock: waits for {waits}" if step is victim else ""
            yield Conflict(DEADLOCK, step["number"], other["number"], "", text_at_source=text)


def _find_cycle_of_waits(
    waiting: dict[int, RecordedStep], path: list[RecordedStep]
) -> list[RecordedStep]:
    """Extend a path of steps, each waiting for the next one, to a cycle; [] if there is none."""
    for process in path[-1]["waited_for"]:
        step = waiting.get(process)
        if step is path[0]:
            return [*path, step]
        cycle = _find_cycle_of_waits(waiting, [*path, step]) if step and step not in path else []
        if cycle:
            return cycle
    return []


def _find_skews(history: History) -> Iterator[Conflict]:
    """Yield the reads of two transactions with the writes of the other that they do not see."""
    for first, second in combinations(history.split_into_transactions(), 2):
        if first[0]["process"] == second[0]["process"]:
            continue
        unseen_by_first = list(_find_unseen_writes(history, first, second))
        unseen_by_second = list(_find_unseen_writes(history, second, first))
        unseen = unseen_by_first + unseen_by_second
        writes = [write for _, write in unseen]
        may_overwrite = any(may_share_row(*pair) for pair in combinations(writes, 2))
        if unseen_by_first and unseen_by_second and not may_overwrite:
            for read, write in sorted((read["number"], write["number"]) for read, write in unseen):
                text = f"changes what step {read} has read"
                yield Conflict(SKEW, read, write, text, f"does not see step {write}")


def _find_unseen_writes(
    history: History, steps: list[RecordedStep], others: list[RecordedStep]
) -> Iterator[tuple[RecordedStep, RecordedStep]]:
    """Yield the reads of one transaction with the writes of another that they do not see."""
    # If PostgreSQL has ended the other transaction, what it would have written counts.
    was_refused = any(other["error"] == SERIALIZATION_ERROR for other in others)
    for read, write in product(steps, others):
        if (
            (read["kind"] == "SELECT" or read["subquery"])
            and write["kind"] in WRITES
            and (was_refused or history.visible_at(write) < NEVER)
            and history.visible_at(write) >= history.read_at(read)
            and may_have_read(read, write)
        ):
            yield read, write
