"""Explores candidates at one place in a test, and says which kinds of races occur there."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from pginterleave import formatting
from pginterleave.discovery.candidates import (
    IGNORED_TABLES,
    Candidate,
    Traffic,
    describe_answer,
    is_refusal_on_purpose,
    is_success,
    make_traffic,
)
from pginterleave.discovery.findings import KINDS
from pginterleave.discovery.first_pass import DATABASE
from pginterleave.discovery.surroundings import Entropy, Surroundings
from pginterleave.discovery.undoing import Update, list_updates
from pginterleave.django.caches import RowCaches
from pginterleave.django.database import DjangoDatabase
from pginterleave.experiment import Experiment
from pginterleave.explorer_errors import CannotExplore
from pginterleave.exploring import explore, run_schedule
from pginterleave.options import Options
from pginterleave.picture.recorded import record_steps
from pginterleave.picture.wording import find_changing_columns
from pginterleave.processes.judgement import Function
from pginterleave.processes.race_coverage import find_written_tables
from pginterleave.processes.rows import Rows
from pginterleave.results import Exploration, Schedule
from pginterleave.searching.runs import rate_simplicity
from pginterleave.sql.statements import find_read_tables

# A request may send many statements, and one that waits for another one in Python hangs.
OPTIONS = Options(max_steps=1_000, step_timeout=10.0, ignored_tables=IGNORED_TABLES)
MAX_JUDGED = 6  # schedules of an exploration, each with other answers or another sentence


@dataclass(frozen=True)
class Known:
    """A candidate of a test, and how it has run alone there."""

    candidate: Candidate
    test: str
    traffic: Traffic
    alone: Schedule

    @property
    def fails(self) -> bool:
        """Whether it answers with a server error, and so says nothing about races."""
        return bool(self.alone.outcomes[0].raised) or self.traffic.answer.startswith("5")

    def is_same(self, other: "Known") -> bool:
        """Whether both are what one test sends."""
        return (self.test, self.traffic) == (other.test, other.traffic)

    @cached_property
    def updates(self) -> list[Update]:
        return [*list_updates(self.candidate.name, self.alone)]


Pair = tuple[Known, Known]


class HiddenAnswer:
    """An answer that is not compared, as all of them have the same repr()."""

    def __init__(self, hidden: object = "") -> None:
        self.hidden = hidden

    def __repr__(self) -> str:
        return "an answer"


def _compare_no_mocks() -> None:
    """Be the `also` of an exploration, which then compares no calls of Mocks."""


class Visit:
    """The rows, and what else is put back, at a place in a test."""

    def __init__(self, entropy: Entropy, row_caches: RowCaches) -> None:
        database = DjangoDatabase(DATABASE)
        if database.in_transaction():
            raise CannotExplore("the test sends it inside a transaction.")
        self._rows = Rows(database.ask)
        self._row_caches = row_caches
        self._surroundings = Surroundings()
        self._entropy = entropy

    def put_back(self) -> None:
        self._rows.put_back()
        self._row_caches.put_back()
        self._surroundings.put_back()

    def run_alone(self, candidate: Candidate, test: str) -> Known:
        """Run a candidate as the only process. Raises InterleaveError."""
        schedules: list[Schedule] = []
        explore(
            [self._make_process(1, candidate)],
            invariant=lambda _: None,
            expected=Exception,
            setup=self.put_back,
            using=DATABASE,
            options=replace(OPTIONS, on_schedule=schedules.append),
        )
        [schedule] = schedules
        [outcome] = schedule.outcomes
        answer = outcome.returned if outcome.raised is None else type(outcome.raised).__name__
        statements = [step.sql for step in schedule.timeline]
        return Known(candidate, test, make_traffic(candidate.name, answer, statements), schedule)

    def explore(self, pair: Pair, **limits: Any) -> Exploration:
        """Explore a pair, with limits such as max_preemptions. Raises InterleaveError."""
        return explore(self._make_processes(pair), **limits, **self._judgement)

    def replay(self, pair: Pair, order: str) -> Schedule:
        """Run one schedule. Raises InterleaveError."""
        return run_schedule(order, self._make_processes(pair), **self._judgement)

    def replay_rows(
        self,
        pair: Pair,
        orders: Sequence[str],
        *,
        left_out: Sequence[bool] = (),
        with_mocks: bool = False,
    ) -> list[str]:
        """Run schedules and compare the rows and mails alone; return what is wrong in each, or "".

        The serial orders are without those of the pair that are `left_out`. The calls of Mocks are
        compared, too, `with_mocks`.
        """
        processes = self._make_processes(pair, hides=True)
        references = [
            HiddenAnswer if is_left_out else process
            for process, is_left_out in zip(processes, left_out, strict=False)
        ]
        also = None if with_mocks else _compare_no_mocks
        experiment = Experiment(processes, like=references, also=also, **self._judgement)
        with experiment.start_scheduler() as scheduler:
            return [scheduler.run_order(order).violation for order in orders]

    @property
    def _judgement(self) -> dict[str, Any]:
        """The arguments of an exploration that is compared with the serial orders."""
        return {
            "setup": self.put_back,
            "using": DATABASE,
            "try_again": lambda outcome: is_refusal_on_purpose(outcome.returned),
            "options": OPTIONS,
        }

    def _make_processes(self, pair: Pair, *, hides: bool = False) -> list[Function]:
        first, second = pair
        candidates = [first.candidate, second.candidate]
        return [self._make_process(n, c, hides=hides) for n, c in enumerate(candidates, start=1)]

    def _make_process(self, number: int, candidate: Candidate, *, hides: bool = False) -> Function:
        def process() -> object:
            # A process that tries again runs in the thread of the test.
            with self._entropy.kept_as(f"process {number}"):
                if not hides:
                    return candidate.run()
                with contextlib.suppress(Exception):
                    return HiddenAnswer(candidate.run())
            return HiddenAnswer()

        return process


class WrongSchedule(NamedTuple):
    """The simplest schedule that shows a race of one kind, and what is wrong, in a sentence."""

    kind: str
    schedule: Schedule
    sentence: str


def find_wrong_schedules(visit: Visit, pair: Pair, exploration: Exploration) -> list[WrongSchedule]:
    """Return a schedule for each kind of race that an exploration shows, worst first.

    Each has run twice and was wrong both times: a thread of the view, such as one that sends mails,
    may be done in one of them and not in the other.
    """
    different: dict[tuple[str, ...], Schedule] = {}
    for schedule in sorted(exploration.violations, key=lambda s: rate_simplicity(s.order)):
        point = schedule.violation.partition("\n")[0]
        key = () if schedule.raises else (*_list_answers(schedule), point)
        different.setdefault(key, schedule)
    found: dict[str, WrongSchedule] = {}
    for wrong in judge(visit, pair, [*different.values()][:MAX_JUDGED]):
        found.setdefault(wrong.kind, wrong)
    wrong_schedules = [found[kind] for kind in KINDS if kind in found]
    return [w for w in wrong_schedules if visit.replay(pair, w.schedule.order).violation]


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
        sentence = in_rows[schedule.order]
        if sentence and any(refused):  # as if who was refused had not run?
            again = visit.replay_rows(pair, [schedule.order], left_out=refused)
            sentence = sentence if any(again) else ""
        # Each is answered as if it were the first.
        are_first = answers == tuple(known.traffic.answer for known in pair)
        if sentence:
            yield WrongSchedule("rows", schedule, sentence)
        elif are_first and not any(refused):
            yield WrongSchedule("twice", schedule, schedule.violation)
        elif not any(refused) and any(
            sentences := visit.replay_rows(pair, [schedule.order], with_mocks=True)
        ):
            yield WrongSchedule("rows", schedule, sentences[0])
        else:
            yield WrongSchedule("answers", schedule, schedule.violation)


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
