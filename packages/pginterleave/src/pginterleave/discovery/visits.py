"""Explores candidates at one place in a test, and says which kinds of races occur there."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
from pginterleave.discovery.surroundings import Surroundings, entropy
from pginterleave.discovery.undoing import Update, list_updates
from pginterleave.django.caches import RowCaches
from pginterleave.django.database import DjangoDatabase
from pginterleave.explorer_errors import CannotExplore, InterleaveError
from pginterleave.exploring import explore, run_schedule
from pginterleave.formatting import format_exception
from pginterleave.options import Options
from pginterleave.processes.judgement import Function
from pginterleave.processes.rows import Rows
from pginterleave.results import Exploration, Schedule
from pginterleave.searching.runs import rate_simplicity

# A request may send many statements, and one that waits for another one in Python hangs.
OPTIONS = Options(max_steps=1_000, step_timeout=10.0, ignored_tables=IGNORED_TABLES)
MAX_JUDGED = 6  # schedules of an exploration, each with other answers or another sentence


@dataclass(frozen=True)
class Known:
    """A candidate of a test, and how it has run alone there.

    `fails` says that it answers with a server error, and so says nothing about races.
    """

    candidate: Candidate
    test: str
    traffic: Traffic
    updates: list[Update]
    fails: bool

    def is_same(self, other: "Known") -> bool:
        """Whether both are what one test sends."""
        return (self.test, self.traffic) == (other.test, other.traffic)


Pair = tuple[Known, Known]


class HiddenAnswer:
    """Stands for an answer that is not compared: they all have the same repr()."""

    def __init__(self, hidden: object = "") -> None:
        self.hidden = hidden

    def __repr__(self) -> str:
        return "an answer"


class Visit:
    """The rows, and what else is put back, at a place in a test."""

    def __init__(self, row_caches: RowCaches) -> None:
        database = DjangoDatabase(DATABASE)
        if database.in_transaction():
            raise CannotExplore("the test sends it inside a transaction.")
        self._kept = (Rows(database.ask), row_caches, Surroundings())

    def put_back(self) -> None:
        for kept in self._kept:
            kept.put_back()

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
        traffic = make_traffic(candidate.name, answer, [step.sql for step in schedule.timeline])
        fails = outcome.raised is not None or traffic.answer.startswith("5")
        return Known(candidate, test, traffic, [*list_updates(candidate.name, schedule)], fails)

    def explore(self, pair: Pair, **limits: Any) -> Exploration:
        """Explore a pair, with limits such as max_preemptions. Raises InterleaveError."""
        return explore(self._make_processes(pair), **limits, **self._judgement)

    def replay(self, pair: Pair, order: str) -> Schedule:
        """Run one schedule. Raises InterleaveError."""
        return run_schedule(order, self._make_processes(pair), **self._judgement)

    def replay_rows(
        self,
        pair: Pair,
        order: str,
        *,
        left_out: Sequence[bool] = (),
        with_mocks: bool = False,
    ) -> str:
        """Run one schedule and compare the rows and mails alone; return what is wrong, or "".

        The serial orders are without those of the pair that are `left_out`. The calls of Mocks are
        compared, too, `with_mocks`. Raises InterleaveError.
        """
        processes = self._make_processes(pair, hides_answers=True)
        references = [
            HiddenAnswer if is_left_out else process
            for process, is_left_out in zip(processes, left_out, strict=False)
        ]
        also = None if with_mocks else lambda: None  # which compares no calls of Mocks
        judgement = {"like": references, "also": also, **self._judgement}
        return run_schedule(order, processes, **judgement).violation

    @property
    def _judgement(self) -> dict[str, Any]:
        """The arguments of an exploration that is compared with the serial orders."""
        return {
            "setup": self.put_back,
            "using": DATABASE,
            "try_again": lambda outcome: is_refusal_on_purpose(outcome.returned),
            "options": OPTIONS,
        }

    def _make_processes(self, pair: Pair, *, hides_answers: bool = False) -> list[Function]:
        first, second = [self._make_process(n, k.candidate) for n, k in enumerate(pair, start=1)]
        return [_hide_answer(first), _hide_answer(second)] if hides_answers else [first, second]

    def _make_process(self, number: int, candidate: Candidate) -> Function:
        """Return a function that runs a candidate with the random bytes of this process."""

        def process() -> object:
            with entropy.kept_as(f"process {number}"):
                return candidate.run()

        return process


def _hide_answer(process: Function) -> Function:
    """Return a process of which neither the answer nor an exception is compared."""

    def process_without_answer() -> HiddenAnswer:
        answer = None
        with contextlib.suppress(Exception):
            answer = process()
        return HiddenAnswer(answer)

    return process_without_answer


class WrongSchedule(NamedTuple):
    """The simplest schedule that shows a race of one kind, and what is wrong, in a sentence."""

    kind: str
    schedule: Schedule
    sentence: str


def find_wrong_schedules(
    visit: Visit, pair: Pair, exploration: Exploration
) -> tuple[list[WrongSchedule], list[str]]:
    """Return a schedule for each kind of race that an exploration shows, worst first.

    Each was wrong when it ran again, too: a thread of the view, such as one that sends mails, may
    be done in one run and not in another. Also return a line on each schedule that could not run
    again, or was right then.
    """
    simplest: dict[tuple[str, ...], Schedule] = {}
    for schedule in sorted(exploration.violations, key=lambda s: rate_simplicity(s.order)):
        # Of those that raise, the simplest is enough.
        key = () if schedule.raises else (*_list_answers(schedule), _get_point(schedule))
        simplest.setdefault(key, schedule)
    confirmed: dict[str, WrongSchedule] = {}
    unconfirmed: list[str] = []
    for schedule in [*simplest.values()][:MAX_JUDGED]:
        what_happened = "it is right"
        try:
            wrong = judge(visit, pair, schedule)
            if wrong.kind in confirmed:
                continue
            # judge() has run it again to find that rows are wrong.
            if wrong.kind == "rows" or visit.replay(pair, schedule.order).violation:
                confirmed[wrong.kind] = wrong
                continue
        except InterleaveError as error:
            what_happened = format_exception(error)
        point = _get_point(schedule).rstrip(".")
        unconfirmed.append(f"{schedule.order}: {point}. When it runs again, {what_happened}")
    return [confirmed[kind] for kind in KINDS if kind in confirmed], unconfirmed


def judge(visit: Visit, pair: Pair, schedule: Schedule) -> WrongSchedule:
    """Return a wrong schedule with the kind of its race. Raises InterleaveError.

    If no process raises, the schedule runs again to compare the rows without the answers.
    """
    if schedule.raises:
        return WrongSchedule("errors", schedule, schedule.describe_violation())
    answers = _list_answers(schedule)
    refused = [not is_success(answer) for answer in answers]
    sentence = visit.replay_rows(pair, schedule.order)
    if sentence and any(refused) and not visit.replay_rows(pair, schedule.order, left_out=refused):
        sentence = ""  # the rows are right: as if the refused requests had not run
    answered_as_alone = answers == tuple(known.traffic.answer for known in pair)
    if not (sentence or any(refused) or answered_as_alone):
        sentence = visit.replay_rows(pair, schedule.order, with_mocks=True)
    if sentence:
        return WrongSchedule("rows", schedule, sentence)
    if answered_as_alone and not any(refused):
        return WrongSchedule("twice", schedule, schedule.violation)
    return WrongSchedule("answers", schedule, schedule.violation)


def _get_point(schedule: Schedule) -> str:
    return schedule.violation.partition("\n")[0]


def _list_answers(schedule: Schedule) -> tuple[str, ...]:
    return tuple(describe_answer(outcome.returned) for outcome in schedule.outcomes)
