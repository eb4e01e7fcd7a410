"""Runs candidates at one place in a test, and leaves everything as it was."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pginterleave.discovery.candidates import (
    IGNORED_TABLES,
    Candidate,
    Traffic,
    is_refusal_on_purpose,
    make_traffic,
)
from pginterleave.discovery.first_pass import DATABASE
from pginterleave.discovery.surroundings import Entropy, Surroundings
from pginterleave.django.caches import RowCaches
from pginterleave.django.database import DjangoDatabase
from pginterleave.experiment import Experiment
from pginterleave.explorer_errors import CannotExplore
from pginterleave.exploring import explore, run_schedule
from pginterleave.options import Options
from pginterleave.processes.judgement import Function
from pginterleave.processes.rows import Rows
from pginterleave.results import Exploration, Schedule

# A request may send many statements, and one that waits for another one in Python hangs.
OPTIONS = Options(max_steps=1_000, step_timeout=10.0, ignored_tables=IGNORED_TABLES)


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


Pair = tuple[Known, Known]


class HiddenAnswer:
    """An answer that is not compared, as all of them have the same repr()."""

    def __init__(self, hidden: object = "") -> None:
        self.hidden = hidden

    def __repr__(self) -> str:
        return "an answer"


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
        self, pair: Pair, orders: Sequence[str], *, left_out: Sequence[bool] = ()
    ) -> list[str]:
        """Run schedules and compare the rows alone; return what is wrong in each, or "".

        The serial orders are without those of the pair that are `left_out`.
        """
        processes = self._make_processes(pair, hides=True)
        references = [
            HiddenAnswer if is_left_out else process
            for process, is_left_out in zip(processes, left_out, strict=False)
        ]
        experiment = Experiment(processes, like=references, **self._judgement)
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
                answer = candidate.run()
            return HiddenAnswer(answer) if hides else answer

        return process
