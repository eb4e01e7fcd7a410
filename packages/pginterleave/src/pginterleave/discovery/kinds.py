"""Which kinds of races the wrong schedules of an exploration show, and what takes part in them."""

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
from pginterleave.steps import Step

MAX_JUDGED = 3  # schedules of an exploration, each with other answers


class WrongSchedule(NamedTuple):
    """The simplest schedule that shows a race of one kind, and what is wrong, in a sentence."""

    kind: str
    schedule: Schedule
    sentence: str


def find_wrong_schedules(visit: Visit, pair: Pair, exploration: Exploration) -> list[WrongSchedule]:
    """Return a schedule for each kind of race that an exploration shows, worst first."""
    by_answers: dict[tuple[str, ...], Schedule] = {}
    for schedule in sorted(exploration.violations, key=lambda s: rate_simplicity(s.order)):
        by_answers.setdefault(() if schedule.raises else _list_answers(schedule), schedule)
    found: dict[str, WrongSchedule] = {}
    for schedule in [*by_answers.values()][:MAX_JUDGED]:
        wrong = judge(visit, pair, schedule)
        found.setdefault(wrong.kind, wrong)
    return [found[kind] for kind in KINDS if kind in found]


def judge(visit: Visit, pair: Pair, schedule: Schedule) -> WrongSchedule:
    """Return the kind of race that a wrong schedule shows; it runs once more for that."""
    if schedule.raises:
        return WrongSchedule("errors", schedule, _describe_error(schedule))
    answers = _list_answers(schedule)
    # Is it wrong, too, if only the rows are compared, and as if who was refused had not run?
    rows_violation = visit.replay_rows(pair, schedule.order)
    refused = [not is_success(answer) for answer in answers]
    if rows_violation and any(refused):
        rows_violation = visit.replay_rows(pair, schedule.order, left_out=refused)
    if rows_violation:
        return WrongSchedule("rows", schedule, rows_violation)
    # Each is answered as if it were the first.
    are_first = answers == tuple(known.traffic.answer for known in pair)
    kind = "twice" if are_first and not any(refused) else "answers"
    return WrongSchedule(kind, schedule, schedule.violation)


def _list_answers(schedule: Schedule) -> tuple[str, ...]:
    return tuple(describe_answer(outcome.returned) for outcome in schedule.outcomes)


def _describe_error(schedule: Schedule) -> str:
    """Return the sentence of a violation, with the message of the exception."""
    for number, outcome in enumerate(schedule.outcomes, start=1):
        if outcome.raised is not None and f"process {number} raises" in schedule.violation:
            return f"process {number} raises {formatting.format_exception(outcome.raised)}"
    return schedule.violation


def list_statements(schedule: Schedule) -> list[dict[str, Any]]:
    """Return the statements that take part: not the reads of what nobody else writes."""
    changing = find_changing_columns(record_steps(schedule.timeline))
    columns = set[str]().union(*changing.values())
    statements = []
    for step in schedule.timeline:
        others = [other for other in schedule.timeline if other.process != step.process]
        if step.error or any(_meet(step, other) for other in others):
            where = formatting.format_place(step.filename, step.lineno) if step.filename else ""
            sql = formatting.cut_to_columns(step.statement(), columns)
            facts = {"process": step.process, "sql": sql, "result": step.result(columns)}
            statements.append({**facts, "where": where})
    return statements


def _meet(step: Step, other: Step) -> bool:
    """Whether one step writes a table that the other reads or writes."""
    writes, other_writes = find_written_tables(step.sql), find_written_tables(other.sql)
    tables = writes | find_read_tables(step.sql)
    other_tables = other_writes | find_read_tables(other.sql)
    return bool((writes & other_tables | other_writes & tables) - IGNORED_TABLES)
