"""Waits until the processes have stopped, or are blocked according to PostgreSQL."""

import itertools
import re
import sys
import time
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from queue import Empty
from types import SimpleNamespace

from pginterleave.choices import victim_of, write_order
from pginterleave.explorer_errors import InterleaveError, StepTimeout
from pginterleave.formatting import format_processes
from pginterleave.processes import queries
from pginterleave.processes.clocks import RealClock
from pginterleave.processes.control import Control
from pginterleave.processes.process import AT_STEP, DONE, FAILED, RETURNED, RUNNING, Process, Stops
from pginterleave.processes.python_locks import IN_PYTHON, find_wait
from pginterleave.sql.dependent_steps import Effect, TakenStep

MIN_POLL_INTERVAL = 0.0006  # seconds until PostgreSQL is first asked whether a statement waits
MAX_FIRST_POLL = 0.02  # well below the shortest timeout that a process may set
MAX_POLL_INTERVAL = 0.005  # seconds between two questions whether a statement waits
MIN_CHECK_TIME = 0.0015  # seconds; a deadlock_timeout of 1 ms has passed by then, nearly always
MAX_CHECK_TIME = 0.05
MIN_LATE_CHECK = 0.03  # seconds until a planned victim looks for the deadlock closed meanwhile
MAX_LATE_CHECK = 1.0
NO_CHECK_SECONDS = 3600.0
MIN_LOCK_WAIT = 0.05  # seconds at a lock of Python; who has just got it needs a moment to go on
LOCK_LIMIT = f"{IN_PYTHON} that a process waits for, which the processes of a server do not share"
UNSEEN_WAIT = (
    "\nIf it waits there for another process: only waits of PostgreSQL, threading, queue and "
    "fcntl.flock are seen (let a Mock replace another one), and one after the other nobody may end "
    "the wait (give an invariant)."
)
Blocked = dict[Process, tuple[int, ...]]  # waiting processes: the numbers of those they wait for

DEADLOCK_DETECTED, LOCK_NOT_AVAILABLE, QUERY_CANCELED = "40P01", "55P03", "57014"  # SQLSTATEs


@dataclass
class Attempt:
    """One attempt at running a schedule: timing in PostgreSQL may discard it."""

    fair: bool = True  # whether overtaking a process that waited for longer discards the attempt
    planned: Sequence[int] = ()  # the choices that the schedule begins with
    known_steps: int = 0  # how many of these have been run before
    victim_waits: Set[int] = frozenset()  # the steps, from 0, at which planned victims wait
    steps: list[SimpleNamespace] = field(default_factory=list)  # taken so far
    effects: list[Effect] = field(default_factory=list)  # the expected effect of each step
    choices: list[int] = field(default_factory=list)  # the choice that led to each step
    other_victims: list[int] = field(default_factory=list)  # of the deadlock just closed
    no_other_victim: bool = False  # whether no other process than the runner can be the victim
    victim_ended: bool = False  # whether the deadlock just closed has ended its planned victim
    undetermined: bool = False  # whether timing in PostgreSQL may have changed the result
    limits: dict[str, None] = field(default_factory=dict)  # see Exploration
    unexplored: dict[str, None] = field(default_factory=dict)  # see Exploration
    discard_reason: str = ""  # why this attempt does not count

    def order(self) -> str:
        return write_order(self.choices)

    def victim(self) -> int:
        """Return the process that the last step is to make the victim of a deadlock, or 0."""
        return victim_of(self.choices[-1]) if self.choices else 0

    def list_steps_of(self, number: int) -> list[TakenStep]:
        """Return the steps that a process has taken, each with its expected effect."""
        taken = zip(self.steps, self.effects, strict=True)
        return [(step, effect) for step, effect in taken if step.process == number]


class Monitor:
    """Knows which process waits for which, and whether a wait ended as it always would end."""

    def __init__(self, processes: list[Process], control: Control, stops: Stops) -> None:
        self.processes = processes
        self.control = control
        self.stops = stops
        self.attempt = Attempt()
        self.runner: Process | None = None  # the process that was last told to go on
        self.waited_before: dict[Process, tuple[int, ...]] = {}  # the blockers before the step
        self.durations: dict[str, float] = {}  # seconds by statement, with the Python after it
        self.have_waited: set[str] = set()  # statements
        self.orders_with_wait: set[str] = set()  # whose last step waited
        self.locks_awaited = False  # whether a process has waited in Python
        # The frame and the instruction at which each stands in Python, and since when, in one step.
        self._stands_at: dict[Process, tuple[object, float]] = {}
        self.stalled = False  # no process can go on until PostgreSQL ends a wait
        self.check_time = 0.0  # seconds each wait gets for its deadlock check
        self.late_check = MIN_LATE_CHECK  # seconds until a planned victim looks for its deadlock

    def wait_until_settled(self, runner: Process | None = None) -> bool:
        """Wait until each process is at a step, done or blocked; `runner` was told to go on.

        Returns whether a process that waited before no longer waits, or waits for others.
        """
        self.runner = runner
        waited = {process: process.blockers for process in self.processes if process.blockers}
        self.waited_before = waited
        in_python = [process for process in waited if not process.sending]
        self._wait()
        unblocked = [
            process
            for process, blockers in waited.items()
            if process.state == RETURNED or process.blockers != blockers
        ]
        by_postgres = [process for process in unblocked if process not in in_python]
        if len(by_postgres) > 1:
            self._check_overtaking(by_postgres)
        while returned := self._list_in_state(RETURNED):  # Python runs in one process at a time
            returned[0].resume()
            self._wait()
        # A process looks for a deadlock once, soon after its wait begins. If all have looked before
        # the next step, whoever closes a deadlock is its victim, unless another one is planned.
        blocked_since = [process.blocked_since for process in self.processes if process.blockers]
        seconds = max(blocked_since, default=0.0) + self.check_time - RealClock.monotonic()
        if seconds > 0:  # a sleep of 0 seconds takes time, too
            time.sleep(seconds)
        return bool(unblocked)

    def _map_pids(self) -> dict[int, Process]:
        """Return the processes by the pids of their sessions."""
        return {pid: process for process in self.processes for pid in process.list_pids()}

    def _list_in_state(self, *states: str) -> list[Process]:
        return [process for process in self.processes if process.state in states]

    def _check_overtaking(self, unblocked: list[Process]) -> None:
        """Discard the attempt if a process overtook another one that had waited for longer.

        PostgreSQL wakes both at the same time. Usually, overtaking has the same result as the
        schedule in which the second statement is sent first. If other processes take steps in
        between, the result may differ; it is then not explored.
        """
        attempt = self.attempt
        attempt.undetermined = True
        committing = [process.number for process in unblocked if process.step.kind == "COMMIT"]
        if len(committing) > 1:
            names = format_processes(committing)
            what = f"which COMMIT of {names} was first, as one step let both go on"
            attempt.unexplored[what] = None
        returned = self._list_in_state(RETURNED)
        pids = [process.step_session.pid for process in returned]
        ended_at = dict(self.control.ask(queries.IDLE_SINCE, pids=pids)) if len(pids) > 1 else {}
        in_order = sorted(unblocked, key=lambda process: process.step.number)
        for first, second in itertools.combinations(in_order, 2):
            if second not in returned:
                continue
            if first in returned:
                first_ended = ended_at[first.step_session.pid]  # None: hidden from the role
                second_ended = ended_at[second.step_session.pid]
                is_known = None not in (first_ended, second_ended)
                overtook = is_known and second_ended < first_ended
            else:
                is_new = len(attempt.steps) >= attempt.known_steps  # a known step did so before
                overtook = second.number in first.blockers and is_new
            if overtook and attempt.fair:
                attempt.discard_reason = f"Process {second.number} overtook process {first.number}."

    def _wait(self) -> None:
        """Wait until each process has stopped, or waits for others while some can go on."""
        began = RealClock.monotonic()
        self._stands_at.clear()
        sql = self.runner.sent.sql if self.runner and self.runner.sent else ""
        # A statement that did not wait here before gets four times the duration of its last runs,
        # and in a new schedule one that has never waited.
        attempt = self.attempt
        is_known = 0 < len(attempt.steps) <= attempt.known_steps
        may_wait = sql in self.have_waited
        if may_wait and is_known:
            may_wait = attempt.order() in self.orders_with_wait
        interval = MIN_POLL_INTERVAL
        if not may_wait:
            interval = min(MAX_FIRST_POLL, max(interval, 4 * self.durations.get(sql, 0.0)))
        while running := self._list_in_state(RUNNING):
            if self._receive_stop(interval):
                if running == [self.runner] and self.runner and not self.runner.sqlstate:
                    seconds = RealClock.monotonic() - began
                    decayed = 0.8 * self.durations.get(sql, seconds)  # old runs count less
                    self.durations[sql] = max(seconds, decayed)
                # If the runner keeps its locks, others may go on waiting for it: ask at once.
                # Otherwise the end of its transaction has unblocked them, and they come back.
                interval = 0.0 if self._has_runner_kept_locks() else MIN_POLL_INTERVAL
                continue
            blocked = self._note_blocked(running)
            if len(blocked) == len(running) and self._can_others_go_on(blocked):
                return
            step_timeout = self.control.options.step_timeout
            if RealClock.monotonic() > began + step_timeout:
                is_in_python = not all(process.sending for process in running)
                raise StepTimeout(
                    f"No step was finished within step_timeout={step_timeout} seconds after "
                    f"{self.attempt.order()!r}. "
                    + " ".join(process.describe() for process in running)
                    + (UNSEEN_WAIT if is_in_python else "")
                )
            interval = min(MAX_POLL_INTERVAL, max(2 * interval, MIN_POLL_INTERVAL / 4))  # from 0.0

    def _has_runner_kept_locks(self) -> bool:
        """Whether the runner has stopped inside a transaction."""
        runner = self.runner
        ended = runner.ended if runner and runner.state == AT_STEP else None
        return ended is not None and ended.in_transaction  # None before the first step

    def _can_others_go_on(self, blocked: Blocked) -> bool:
        """Record that all running processes wait; return whether another one can go on."""
        for process in blocked:
            if process.sent:  # it is None outside a step, as when a session is reset
                vars(process.sent).setdefault("waited_for", process.blockers)  # the first
        is_deadlock = _has_cycle(blocked)
        if is_deadlock and self.attempt.victim():
            self._end_missed_deadlock()
        self.stalled = is_deadlock or not self._list_in_state(AT_STEP, RETURNED)
        return not self.stalled

    def _receive_stop(self, timeout: float) -> bool:
        """Handle the next stop of a process; return False if there is none in `timeout` seconds."""
        try:
            process, state = self.stops.get(timeout=timeout)
        except Empty:
            return False
        process.state = state
        if process.state == FAILED:
            text = f"Process {process.number} cannot go on: {process.failure}"
            raise InterleaveError(text) from process.failure
        was_blocked = bool(process.blockers)
        if process.state != RETURNED:
            process.blockers = ()
        step = process.sent
        process.sent = None
        if step:
            process.ended = step
            step.until = len(self.attempt.steps)
            if process.sqlstate == DEADLOCK_DETECTED:
                self._check_deadlock(process)
            elif process.sqlstate in (LOCK_NOT_AVAILABLE, QUERY_CANCELED):
                self._check_timeout(process, step, was_blocked=was_blocked)
        self.stalled = False
        return True

    def _check_deadlock(self, victim: Process) -> None:
        """Discard the attempt if a deadlock may end another process the next time than `victim`."""
        attempt = self.attempt
        runner = self.runner
        victim_was_not = "The victim of a deadlock was not"
        planned = attempt.victim()
        deadlocked = self._read_deadlock(victim.detail)
        # The others looked too early to be victims: later attempts plan each of them as the victim.
        if victim == runner and victim.session.checks_deadlocks_at_once and not planned:
            attempt.other_victims = [other.number for other in deadlocked if other != victim]
        elif len(deadlocked) > 1 and (not planned or attempt.victim_ended):
            names = format_processes([process.number for process in deadlocked])
            limit = f"another victim of a deadlock of {names} than process {victim.number}"
            attempt.limits[limit] = None
        if planned:
            # The end of the planned victim may let another deadlock close, with another victim.
            if not attempt.victim_ended and victim.number != planned:
                attempt.discard_reason = "The victim of a deadlock was another one."
                # A process that would wait for one that waits for it is refused at once, as when
                # both want a stronger lock on a table. Otherwise this one would not have looked.
                is_new = len(attempt.choices) >= attempt.known_steps
                attempt.no_other_victim = is_new and victim == runner
            attempt.victim_ended = True
        elif not victim.session.checks_deadlocks_at_once:  # who waited longest looks first
            attempt.undetermined = True
            longest = min(deadlocked, key=lambda other: other.blocked_since, default=victim)
            if attempt.fair and victim != longest:
                attempt.discard_reason = f"{victim_was_not} the one that waited longest."
        elif runner and runner != victim:
            # The victim already waited when another process closed the cycle: the runner, or one
            # that the runner let go on. With MAX_CHECK_TIME for each step, any victim is accepted.
            waited_for_runner = runner.number in self.waited_before.get(victim, ())
            may_check_longer = self.check_time < MAX_CHECK_TIME
            if runner in deadlocked or (may_check_longer and not waited_for_runner):
                self.check_time = min(MAX_CHECK_TIME, max(MIN_CHECK_TIME, 2 * self.check_time))
                attempt.discard_reason = f"{victim_was_not} the process that closed it."

    def _read_deadlock(self, detail: str) -> list[Process]:
        """Return the processes in the detail of a deadlock's error, and record unseen waits."""
        by_pid = self._map_pids()
        deadlocked = set[Process]()
        for line in detail.splitlines():  # one for each wait
            pids = map(int, re.findall(r"\d+", line))
            named = [by_pid[pid] for pid in pids if pid in by_pid]
            if not named:
                continue
            deadlocked |= {*named}
            waiting, *blockers = named
            step = waiting.sent or waiting.ended
            if step and not getattr(step, "waited_for", ()):
                step.waited_for = tuple(dict.fromkeys(other.number for other in blockers))
        return [process for process in self.processes if process in deadlocked]

    def choose_deadlock_timeout(self, choice: int) -> float:
        """Return after how many seconds of a wait the next step looks for a deadlock (0: at once).

        Who finds a deadlock is its victim: a planned one looks late, and who closes it never.
        """
        if victim_of(choice):
            return NO_CHECK_SECONDS
        return self.late_check if len(self.attempt.steps) in self.attempt.victim_waits else 0.0

    def _end_missed_deadlock(self) -> None:
        """End a deadlock whose planned victim looked before the deadlock was closed."""
        closed_at = max(process.blocked_since for process in self.processes if process.blockers)
        is_missed = RealClock.monotonic() - closed_at > 2 * self.late_check
        if is_missed and self.runner and self.runner.blockers:
            self.attempt.discard_reason = "The victim of a deadlock looked too early."
            self.late_check = min(2 * self.late_check, MAX_LATE_CHECK)
            self.control.ask(queries.CANCEL, pid=self.runner.step_session.pid)

    def _check_timeout(self, process: Process, step: SimpleNamespace, *, was_blocked: bool) -> None:
        """Discard the attempt if a timeout has ended a wait while another process could go on."""
        self.attempt.undetermined = True
        name = "lock_timeout" if process.sqlstate == LOCK_NOT_AVAILABLE else "statement_timeout"
        # The wait may end before it is seen. A statement_timeout also ends what does not wait.
        may_be_unseen = name == "lock_timeout" or process.polls < 2
        waited = was_blocked or (may_be_unseen and not process.foreign_blockers)
        if process.timed_out and self.attempt.victim() and not self.attempt.victim_ended:
            self.late_check /= 2  # in the next attempt the victim looks before the timeout
            self.attempt.discard_reason = f"A {name} ended a deadlock before its victim looked."
        elif process.timed_out and waited and not self.stalled:
            self.attempt.discard_reason = (
                f"A {name} ended the wait of process {process.number} while others could "
                f"still go on: it is too short. It had sent {step.sql!r}, at "
                f"{step.filename}:{step.lineno} ({step.function})."
            )

    def _note_blocked(self, running: list[Process]) -> Blocked:
        """Ask PostgreSQL which processes wait, note that on each process, and return them."""
        # The pids are read once, because a process that connects gets a new one.
        running_by_pid = {process.step_session.pid: process for process in running}
        by_pid = self._map_pids() | running_by_pid
        for process in running:
            process.foreign_blockers = []
            process.polls += 1
        blocked = {}
        # pg_locks is one consistent snapshot: if all wait in it, no process makes progress. A pid
        # has a row for the lock that it waits for, and always one for a snapshot.
        for pid, seconds, blockers in self.control.ask(queries.BLOCKERS, pids=[*running_by_pid]):
            process = by_pid[pid]
            process.foreign_blockers += sorted(set(blockers) - by_pid.keys())
            blocking_pids = by_pid.keys() & blockers
            numbers = tuple(sorted({by_pid[other].number for other in blocking_pids}))
            if 0 in blockers:  # a prepared transaction; any other process may end it
                numbers = tuple(other.number for other in self.processes if other is not process)
            if numbers:
                blocked[process] = process.blockers = numbers
                self.have_waited.add(process.sent.sql if process.sent else "")
                if process is self.runner:
                    self.orders_with_wait.add(self.attempt.order())
                process.blocked_since = RealClock.monotonic() - (seconds or 0.0)
        in_python = [process for process in running if process not in blocked]
        waiting = [process for process in in_python if self._waits_for_python_lock(process)]
        others = [process for process in self.processes if process not in waiting]
        numbers = tuple(other.number for other in others if other.state != DONE)
        self.attempt.undetermined |= len(waiting) > 1  # the system chooses who gets the lock
        for process in waiting if numbers else ():
            blocked[process] = process.blockers = numbers
        return blocked

    def _waits_for_python_lock(self, process: Process) -> bool:
        """Whether a process waits in Python for what any other process may hold or give."""
        now = RealClock.monotonic()
        frame = sys._current_frames().get(process.thread.ident or 0)
        place = frame and (id(frame), frame.f_lasti)
        last_place, since = self._stands_at.get(process, (None, now))
        if process.sending or place is None or place != last_place:
            self._stands_at[process] = place, now
            return False
        # Only now: to read the variables of a thread that runs can crash Python 3.13.
        if now - since < MIN_LOCK_WAIT:
            return False
        wait = find_wait(frame)
        if not wait:
            return False
        self.locks_awaited = True
        if wait == IN_PYTHON:  # and not a file lock, which the processes of a server share
            self.control.catalogue.note_unchecked(LOCK_LIMIT)
        return True


def _has_cycle(blocked: Blocked) -> bool:
    """Whether some processes wait for each other."""
    waits = {process.number: numbers for process, numbers in blocked.items()}
    try:
        TopologicalSorter(waits).prepare()
    except CycleError:
        return True
    return False
