"""Which kinds of races the wrong schedules of an exploration show, and what takes part in them."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pginterleave import formatting
from pginterleave.discovery.candidates import IGNORED_TABLES, describe_answer, is_success
from pginterleave.discovery.findings import KINDS
from pginterleave.discovery.visits import Pair, Visit
from pginterleave.picture.recorded import record_steps
from pginterleave.picture.wording import find_changing_columns
from pginterleave.processes.race_coverage import find_written_tables
from pginterleave.results import Exploration, Schedule
from pginterleave.searching.runs import rate_simplicity
from pginterleave.sql.statements import find_read_tables

MAX_JUDGED = 6  # schedules of an exploration, each with other answers or another sentence


class WrongSchedule(NamedTuple):
    """The simplest schedule that shows a race of one kind, and what is wrong, in a sentence."""

    kind: str
    schedule: Schedule
    sentence: str


def find_wrong_schedules(visit: Visit, pair: Pair, exploration: Exploration) -> list[WrongSchedule]:
    """Return a schedule for each kind of race that an exploration shows, worst first."""
    different: dict[tuple[str, ...], Schedule] = {}
    for schedule in sorted(exploration.violations, key=lambda s: rate_simplicity(s.order)):
        point = schedule.violation.partition("\n")[0]
        key = () if schedule.raises else (*_list_answers(schedule), point)
        different.setdefault(key, schedule)
    found: dict[str, WrongSchedule] = {}
    for wrong in judge(visit, pair, [*different.values()][:MAX_JUDGED]):
        found.setdefault(wrong.kind, wrong)
    return [found[kind] for kind in KINDS if kind in found]


def judge(visit: Visit, pair: Pair, schedules: Sequence[Schedule]) -> Iterator[WrongSchedule]:
    """Yield the kind of race that each wrong schedule shows; most run once more for that."""
    answered = [schedule for schedule in schedules if not schedule.raises]
    # Is it wrong, too, if only the rows are compared?
    orders = [schedule.order for schedule in answered]
    in_rows = dict(zip(orders, visit.replay_rows(pair, orders), strict=True)) if orders else {}
    for schedule in schedules:
        if schedule.raises:
            yield WrongSchedule("errors", schedule, _describe_error(schedule))
            continue
        answers = _list_answers(schedule)
        refused = [not is_success(answer) for answer in answers]
        rows_violation = in_rows[schedule.order]
        if rows_violation and any(refused):  # as if who was refused had not run?
            again = visit.replay_rows(pair, [schedule.order], left_out=refused)
            rows_violation = rows_violation if any(again) else ""
        # Each is answered as if it were the first.
        are_first = answers == tuple(known.traffic.answer for known in pair)
        kind = "twice" if are_first and not any(refused) else "answers"
        kind = "rows" if rows_violation else kind
        yield WrongSchedule(kind, schedule, rows_violation or schedule.violation)


def _list_answers(schedule: Schedule) -> tuple[str, ...]:
    return tuple(describe_answer(outcome.returned) for outcome in schedule.outcomes)


def _describe_error(schedule: Schedule) -> str:
    """Return the sentence of a violation, with the message of the exception."""
    for number, outcome in enumerate(schedule.outcomes, start=1):
        if outcome.raised is not None and f"process {number} raises" in schedule.violation:
            return f"process {number} raises {formatting.format_exception(outcome.raised)}"
    return schedule.violation


def list_statements(schedule: Schedule) -> list[dict[str, Any]]:
    """Return the statements that take part: not the reads of what nobody else writes.

    The COMMIT or ROLLBACK of a write is one of them if another process comes between the two.
    """
    changing = find_changing_columns(record_steps(schedule.timeline))
    columns = set[str]().union(*changing.values())
    written = [find_written_tables(step.sql) - IGNORED_TABLES for step in schedule.timeline]
    used = [find_read_tables(step.sql) - IGNORED_TABLES for step in schedule.timeline]
    statements: list[dict[str, Any]] = []
    writers: set[int] = set()  # the processes with a listed write that is not committed
    for step, writes, reads in zip(schedule.timeline, written, used, strict=True):
        others = [s.process != step.process for s in schedule.timeline]
        other_writes = frozenset[str]().union(*itertools.compress(written, others))
        other_reads = frozenset[str]().union(*itertools.compress(used, others))
        ends_writes = step.kind in ("COMMIT", "ROLLBACK") and step.process in writers
        if ends_writes:
            writers.discard(step.process)
        is_later = ends_writes and statements[-1]["process"] != step.process
        if step.error or is_later or (writes | reads) & other_writes or writes & other_reads:
            writers |= {step.process} if writes else set()
            where = formatting.format_place(step.filename, step.lineno) if step.filename else ""
            sql = formatting.cut_to_columns(step.statement(), columns)
            facts = {"process": step.process, "sql": sql, "result": step.result(columns)}
            statements.append({**facts, "where": where})
    return statements
