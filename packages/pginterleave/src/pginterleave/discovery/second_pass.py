"""The second pass: what is new is explored at its place in its test, which runs once more.

First each request beside itself; then pairs of a class of which one may undo what the other writes,
and then the other pairs. All that with one preemption, and then with two.
"""

import contextlib
import shlex
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pginterleave.discovery.candidates import IGNORED_TABLES, Candidate, Listener, Traffic
from pginterleave.discovery.findings import Discovery, Explored, Race, join_names
from pginterleave.discovery.first_pass import DATABASE
from pginterleave.discovery.private_names import keep_exceptions_from_clients
from pginterleave.discovery.surroundings import WaitLimit, entropy
from pginterleave.discovery.undoing import may_undo
from pginterleave.discovery.visits import (
    Known,
    Pair,
    Visit,
    WrongSchedule,
    find_wrong_schedules,
    judge,
)
from pginterleave.django.caches import RowCaches
from pginterleave.explorer_errors import ImpossibleSchedule, InterleaveError
from pginterleave.formatting import cut_to_columns, format_exception
from pginterleave.picture.history import ENDS
from pginterleave.picture.recorded import record_steps
from pginterleave.picture.taking_part import find_steps_that_take_part, list_written
from pginterleave.picture.wording import RecordedStep, find_changing_columns
from pginterleave.processes.clocks import RealClock
from pginterleave.steps import ENDS_OF_BLOCKS, Timeline


class Round(NamedTuple):
    """What is explored while the tests run once: pairs, or each request beside itself.

    `undoing`: only pairs of which one may undo what the other writes.
    """

    pairs: bool
    preemptions: int
    undoing: bool = False


ROUNDS = (
    Round(False, 1),
    Round(True, 1, undoing=True),
    Round(True, 1),
    Round(False, 2),
    Round(True, 2),
)


@dataclass
class SecondPass(Listener):
    """Explores the candidates of the test that runs; `results` has what was found.

    Attributes:
        wait_limit: ends the test if it takes too long, besides its explorations.
        seconds: the limit of each exploration.
        ends_at: when to begin no further one, by RealClock.monotonic().
        replay: a schedule; if it is given, only this one runs. `wrong_replay` is kept if it is
            wrong, and `replay_obstacle` says why it has not run, or is empty.
        replay_names: the names of the pair that it is of; none: of any pair.
        requests: how many different ones there are.
        report_progress: called after each exploration, with how far it is.
        test, group, wanted: the test that runs, its class or module, and the names to explore.
        written: the names of what has written when the test ran once more, while there was time.
        known: what was found in the tests of each group.
    """

    results: Discovery
    wait_limit: WaitLimit
    seconds: float
    ends_at: float
    replay: str
    replay_names: frozenset[str]
    requests: int
    report_progress: Callable[[str], object]
    round: Round = ROUNDS[0]
    test: str = ""
    group: str = ""
    wanted: frozenset[str] = frozenset()
    written: set[str] = field(default_factory=set)
    known: dict[str, list[Known]] = field(default_factory=lambda: defaultdict(list))
    wrong_replay: WrongSchedule | None = None
    replay_obstacle: str = "no test sends such a request"

    def __post_init__(self) -> None:
        self._explored: dict[tuple[bool, frozenset[Traffic]], Explored] = {}
        self._is_busy = False
        self._row_caches = RowCaches(DATABASE)

    def begin(self, round_: Round, test: str, group: str, wanted: frozenset[str]) -> None:
        """Begin to explore a test of a group: what it sends with one of the names `wanted`."""
        self.round, self.test, self.group = round_, test, group
        self.wanted = wanted & self.replay_names if self.replay_names else wanted
        self.written = set()

    def describe_progress(self) -> str:
        """Return a line such as `[12 of 340 requests, 5 pairs, 3 races]`."""
        alone = sum(not is_pair for is_pair, _ in self._explored)
        pairs, races = len(self._explored) - alone, len(self.results.races)
        return f"[{alone} of {self.requests} requests, {pairs} pairs, {races} races]"

    def has_time(self) -> bool:
        return RealClock.monotonic() < self.ends_at

    def has_work(self) -> bool:
        """Whether something of the test is left to explore in this round."""
        if self.wrong_replay:
            return False
        own = [known for known in self.known[self.group] if known.test == self.test]
        return self.round == ROUNDS[0] or any(self._list_partners(this) for this in own)

    def _list_partners(self, this: Known) -> list[Known]:
        """Return what a candidate is to be explored beside in this round."""
        partners = [this]
        if self.round.pairs:
            others = [other for other in self.known[self.group] if not other.is_same(this)]
            if self.round.undoing:
                partners = [other for other in others if may_undo(this.updates, other.updates)]
            else:
                partners = [other for other in others if other.traffic.meets(this.traffic)]
        return [other for other in partners if self._is_open(this, other)]

    def _is_open(self, this: Known, other: Known) -> bool:
        """Whether a pair is new, or was safe with the preemptions of the round before."""
        before = self._explored.get((self.round.pairs, frozenset((this.traffic, other.traffic))))
        if before is None:
            return True
        return not before.races and before.preemptions == self.round.preemptions - 1

    def explore(self, candidate: Candidate) -> None:
        """Explore a request at its place in the test, unless an equal one was explored."""
        if self._is_busy or candidate.name not in self.wanted or not self.has_time():
            return
        self._is_busy = True
        try:
            with (
                self.wait_limit.paused(),
                entropy.kept_as("alone"),
                keep_exceptions_from_clients(),
            ):
                visit = Visit(self._row_caches)
                try:
                    self._explore_at(visit, candidate)
                finally:
                    visit.put_back()
        except BaseException as error:
            self.results.leave_out(self.test, candidate.name, format_exception(error))
            if not isinstance(error, Exception):  # Ctrl-C, or pytest.exit()
                raise
        finally:
            self._is_busy = False

    def _explore_at(self, visit: Visit, candidate: Candidate) -> None:
        this = visit.run_alone(candidate, self.test)
        if not this.traffic.writes:
            return
        self.written.add(candidate.name)
        if this.fails:
            reason = f"alone it answers {this.traffic.answer}"
            self.results.leave_out(self.test, candidate.name, reason)
            return
        if not any(other.is_same(this) for other in self.known[self.group]):
            self.known[self.group].append(this)
        for other in self._list_partners(this):
            if self.has_time() and (other is this or self._fits(visit, other)):
                (self._replay if self.replay else self._explore_pair)(visit, (this, other))

    def _fits(self, visit: Visit, other: Known) -> bool:
        """Whether a request of another test does here what it does in its own test."""
        with contextlib.suppress(InterleaveError):
            here, own = visit.run_alone(other.candidate, other.test).traffic, other.traffic
            return (here.answer, here.writes) == (own.answer, own.writes)
        return False

    def _explore_pair(self, visit: Visit, pair: Pair) -> None:
        """Explore a pair, and add to the results what was found, or why nothing was decided."""
        names, tests = [known.candidate.name for known in pair], [known.test for known in pair]
        entry = Explored(names=names, tests=list(dict.fromkeys(tests)))
        limits = {"max_preemptions": self.round.preemptions, "max_seconds": self.seconds or None}
        try:
            exploration = visit.explore(pair, **limits)
            entry.preemptions = exploration.counted_preemptions
            entry.limits = [*exploration.limits]
            if exploration.serial_failure:
                entry.reason = f"one after the other, too: {exploration.serial_failure.violation}"
            elif exploration.violations:
                wrong_schedules, entry.unconfirmed = find_wrong_schedules(visit, pair, exploration)
                entry.races = len(wrong_schedules)
                if not wrong_schedules:
                    entry.reason = "no wrong schedule is confirmed"
                for wrong in wrong_schedules:
                    self.results.add_race(make_race(names, entry.tests, wrong))
            elif entry.preemptions in (-1, 0) or not (exploration.decided or exploration.truncated):
                entry.reason = str(exploration)
        except InterleaveError as error:
            entry.reason = format_exception(error)
        key = (self.round.pairs, frozenset(known.traffic for known in pair))
        self._explored[key] = entry
        self.results.explored = [*self._explored.values()]
        self.report_progress(self.describe_progress())

    def _replay(self, visit: Visit, pair: Pair) -> None:
        """Run the one schedule, if it is one of this pair, and keep it if it is wrong."""
        names = frozenset(known.candidate.name for known in pair)
        if self.wrong_replay or names != (self.replay_names or names):
            return
        try:
            schedule = visit.replay(pair, self.replay)
        except ImpossibleSchedule as error:  # it may be one of another pair
            if self.replay_obstacle:
                self.replay_obstacle = f"{join_names(sorted(names))}: {error}"
            return
        self.replay_obstacle = ""
        if schedule.violation:
            self.wrong_replay = judge(visit, pair, schedule)


def write_command(names: list[str], tests: list[str], order: str) -> str:
    """Return the command that replays a schedule of a pair."""
    # The name of a call ends with (), that of a request does not.
    calls = [name.removesuffix("()") for name in dict.fromkeys(names) if name.endswith("()")]
    options = [f"--interleave-calls={call}" for call in calls]
    if not all(name.endswith("()") for name in names):
        options.append("--interleave-requests")
    replay = f"{join_names(names)} {order}"
    return shlex.join(["pytest", *tests, *options, "--interleave-replay", replay])


def make_race(names: list[str], tests: list[str], wrong: WrongSchedule) -> Race:
    """Return a race as plain data, with the command that replays it."""
    order, timeline = wrong.schedule.order, wrong.schedule.timeline
    steps = record_steps(timeline)
    return Race(
        names=names,
        tests=tests,
        kind=wrong.kind,
        sentence=wrong.sentence,
        order=order,
        command=write_command(names, tests, order),
        statements=list_statements(timeline, steps),
        steps=steps,
    )


def list_statements(timeline: Timeline, steps: list[RecordedStep]) -> list[dict[str, Any]]:
    """Return the statements that take part, as Race.statements; `steps` are the recorded ones.

    The COMMIT or ROLLBACK of a write is one of them if another process comes between the two, or if
    it fails.
    """
    taking_part = find_steps_that_take_part(steps, IGNORED_TABLES)
    columns = set[str]().union(*find_changing_columns(steps).values())
    statements: list[dict[str, Any]] = []
    writers: set[int] = set()  # the processes with a listed write that is not committed
    for step, recorded in zip(timeline, steps, strict=True):
        process = recorded["process"]
        if recorded["kind"] in ENDS and process in writers:
            writers.discard(process)
            is_listed = statements[-1]["process"] != process
        else:
            is_listed = step.number in taking_part and recorded["kind"] not in ENDS_OF_BLOCKS
        if is_listed or recorded["error"]:
            if list_written(recorded) - IGNORED_TABLES:
                writers.add(process)
            sql = cut_to_columns(recorded["sql"], columns)
            facts = {"process": process, "sql": sql, "result": step.result(columns)}
            statements.append({**facts, "where": recorded["where"]})
    return statements
