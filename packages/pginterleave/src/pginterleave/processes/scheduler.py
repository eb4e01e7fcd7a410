"""Runs one schedule after another: lets one process at a time take one step."""

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from pginterleave.choices import (
    Positions,
    find_waits_of_victims,
    parse_order,
    process_of,
    victim_of,
    write_order,
)
from pginterleave.explorer_errors import (
    CannotExplore,
    ImpossibleSchedule,
    InterleaveError,
    NoOtherVictim,
    NotDeterministic,
    sqlstate,
)
from pginterleave.formatting import format_processes
from pginterleave.options import Options
from pginterleave.processes import race_coverage
from pginterleave.processes.calling_line import format_calling_place
from pginterleave.processes.control import Control, Database
from pginterleave.processes.judgement import Function, Judge, Judgement
from pginterleave.processes.monitor import LOCK_NOT_AVAILABLE, Attempt, Monitor
from pginterleave.processes.process import AT_STEP, DONE, Process, Stops, shut_down
from pginterleave.processes.shared_memory import SharedMemory
from pginterleave.processes.watching import Kind, OpenFiles, find_instances, watch
from pginterleave.results import Schedule
from pginterleave.sql.dependent_steps import (
    GLOBAL,
    Claim,
    Claims,
    Effect,
    TakenStep,
    find_claim,
    find_effect,
)
from pginterleave.steps import Outcome, Step

MAX_PROCESSES = 9  # a schedule is written with one digit for each step
MAX_ATTEMPTS = 100  # at one schedule, as timing in PostgreSQL may discard an attempt
MAX_FAIR_ATTEMPTS = 30  # the first attempts, in which no process may overtake another in a wait

Setup = Callable[[], object]


class Choose(Protocol):
    def __call__(
        self,
        ready: dict[int, Effect],
        positions: Positions,
        affected_others: bool,
        claims: Claims,
        /,
    ) -> int:
        """Choose the process that takes the next step; return the choice, as in choices.py.

        `ready` has the processes that can go on, by number, each with the effect of its next step
        on others. `positions` has where each process is. `affected_others` says that the last step
        did more to others than its effect says. `claims` has the locks that each process holds and
        requests.
        """


class Scheduler:
    """The processes of a race, ready to run schedules; a context manager that ends them."""

    def __init__(
        self,
        processes: Sequence[Function],
        setup: Setup,
        judge: Judge,
        database: Database,
        options: Options,
    ) -> None:
        if not 1 <= len(processes) <= MAX_PROCESSES or not all(map(callable, processes)):
            raise CannotExplore(
                f"Give 1 to {MAX_PROCESSES} processes, each a callable: pass the function, and do "
                "not call it, as in interleave(f, partial(g, 1))."
            )
        if options.max_steps < 1 or options.step_timeout <= 0:
            raise CannotExplore("max_steps and step_timeout must be greater than zero.")
        self.thread = threading.current_thread()
        self.setup = setup
        self.judge = judge
        self.options = options
        self.control = Control(database, options)
        self.control.refuse_transaction("The exploration was started inside a transaction of")
        stops = Stops()
        numbered = enumerate(processes, start=1)
        self.processes = [Process(n, function, self.control, stops) for n, function in numbered]
        self.monitor = Monitor(self.processes, self.control, stops)
        self.attempt = self.monitor.attempt
        self.memory = SharedMemory(processes)
        self.files = OpenFiles()
        self.has_looked = False  # whether they know what was there before the first schedule
        self.add_victims: Callable[[list[int]], object] = lambda _: None  # run() sets it
        self.reduce = False  # whether the effects of steps are needed
        self.affected_others = False  # whether the last step did more than its effect

    def __enter__(self) -> "Scheduler":
        try:
            self.control.change_settings()
            for process in self.processes:
                process.start()
            self.monitor.wait_until_settled()
        except BaseException as error:
            shut_down(self.processes, self.control, error)
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        shut_down(self.processes, self.control, error)
        if recorder := race_coverage.recorder:
            recorder.note_exploration([process.sent_lines for process in self.processes])

    def run(
        self,
        choose: Choose,
        *,
        before_attempt: Callable[[], object] = lambda: None,
        planned: Sequence[int] = (),
        known_steps: int = 0,
        add_victims: Callable[[list[int]], object] = lambda _: None,
        in_turn: Sequence[int] = (),
    ) -> Schedule:
        """Run one schedule; `choose` says which of the ready processes takes the next step.

        The schedule begins with the choices `planned`, of which the first `known_steps` have run
        before. `add_victims` is called with the other possible victims of a deadlock. With
        `in_turn`, an order of all processes, each process starts when the one before has ended.
        Raises NotDeterministic if timing discards all attempts, and NoOtherVictim.
        """
        self.add_victims = add_victims
        for number in range(MAX_ATTEMPTS):
            victim_waits = find_waits_of_victims(planned).keys()
            attempt = Attempt(number < MAX_FAIR_ATTEMPTS, planned, known_steps, victim_waits)
            self.attempt = self.monitor.attempt = attempt
            before_attempt()
            schedule = self._run_attempt(choose, in_turn)
            if not attempt.discard_reason:
                catalogue = self.control.catalogue
                catalogue.limits |= attempt.limits
                catalogue.unexplored |= attempt.unexplored
                read_committed = [process.session.is_read_committed() for process in self.processes]
                catalogue.note_schedule(schedule.timeline, read_committed)
                return schedule
            if attempt.no_other_victim and self.processes[0].session.checks_deadlocks_at_once:
                raise NoOtherVictim(f"{attempt.order()}: PostgreSQL ends who closes this deadlock.")
        raise NotDeterministic(f"{self.attempt.discard_reason} ({MAX_ATTEMPTS} attempts)")

    def run_in_turn(self, order: Sequence[int]) -> Schedule:
        """Run the processes one after the other, in an order of their numbers."""
        return self.run(lambda ready, *_: next(iter(ready)), in_turn=order)  # one is ready

    def run_order(self, order: str) -> Schedule:
        """Run a schedule from its written form. Raises ImpossibleSchedule."""
        choices = parse_order(order)
        if write_order(choices) != order:
            raise ImpossibleSchedule(f"{order!r} is not a schedule such as 1212.")

        def choose(ready: dict[int, Effect], *_: object) -> int:
            number = len(self.attempt.steps)  # of the steps that were taken
            if number == len(choices):
                left = [process.number for process in self.processes if process.state != DONE]
                end = f"the end of {format_processes(left)}"
                raise ImpossibleSchedule(f"{order!r} is over before {end}: add the missing steps.")
            process = process_of(choices[number])
            if process not in ready:
                after = f" after {write_order(choices[:number])!r}" if number else ""
                raise ImpossibleSchedule(
                    f"Step {number + 1} of {order!r} cannot be taken by process {process}: only "
                    f"{format_processes(list(ready))} can go on{after}."
                )
            return choices[number]

        schedule = self.run(choose, planned=choices)
        if schedule.order != order:
            end = schedule.order
            raise ImpossibleSchedule(f"{order!r} goes on after all have ended, at {end!r}.")
        return schedule

    def _run_attempt(self, choose: Choose, in_turn: Sequence[int]) -> Schedule:
        """Set up, run the processes once, and judge how they end."""
        attempt = self.attempt
        with self._call_callers_code("in setup"):
            self.setup()
        self.control.refuse_transaction("setup has left a transaction open on")
        self.judge.begin()
        if not self.has_looked:
            self._look()
        self.control.begin_schedule()
        with watch(self._note_outside_use):
            self.memory.begin()
            self.files.begin()
            self._run_processes(choose, in_turn)
            self.memory.note_use()
            self._note_files(self.files.list_written())
        sessions = itertools.chain(*(process.list_sessions() for process in self.processes))
        self.control.note_strangers(set[int]().union(*(session.pids for session in sessions)))
        outcomes = [process.outcome for process in self.processes]
        judgement = Judgement() if attempt.discard_reason else self._judge(outcomes)
        timeline = tuple(Step(**vars(step)) for step in attempt.steps)
        return Schedule(attempt.order(), timeline, tuple(outcomes), *judgement)

    def _look(self) -> None:
        """Find, after the first setup, what the processes may use besides their sessions."""
        self.has_looked = True
        instances = find_instances()
        self.control.other_pids = instances.pids
        self.memory.look(instances.caches)
        self.files.look(instances.files)

    def _run_processes(self, choose: Choose, in_turn: Sequence[int]) -> None:
        """Let the processes take their steps, until all have ended."""
        not_started = [*in_turn]
        for process in () if in_turn else self.processes:  # all start at once
            self._resume(process)
        while True:
            ready = [process for process in self.processes if process.state == AT_STEP]
            if not ready and not not_started:
                return
            if not ready:
                self._resume(self.processes[not_started.pop(0) - 1])
                continue
            self._take_next_step(ready, choose)
            if self.options.observe and not in_turn:
                with self._call_callers_code("in observe"):
                    self.attempt.steps[-1].observed = self.options.observe()

    def _take_next_step(self, ready: list[Process], choose: Choose) -> None:
        """Take the step that `choose` says.

        An attempt that is discarded only has to end: the first ready process goes on. Where the
        processes are not as in an earlier run, PostgreSQL's timing may be why (`undetermined`), and
        the attempt is discarded. Otherwise the code is not deterministic, which is an error.
        """
        attempt = self.attempt
        choice = ready[0].number
        effects: dict[int, Effect] = {}
        if not attempt.discard_reason:
            try:
                effects, claims = self._find_effects(ready)
                positions = tuple(process.get_position() for process in self.processes)
                choice = choose(effects, positions, self.affected_others, claims)
            except NotDeterministic as error:
                if not attempt.undetermined:
                    raise
                attempt.discard_reason = str(error)
        self._take_step(choice, effects.get(process_of(choice), GLOBAL))

    def _resume(self, process: Process) -> bool:
        """Let a process go on to its next stop; return whether this has unblocked another one."""
        process.resume()
        unblocked = self.monitor.wait_until_settled(process)
        self.memory.note_caches()
        return unblocked

    def _note_outside_use(self, kind: Kind, name: Any) -> None:
        """Note what another thread than the caller's uses outside of the sessions.

        `name` is that of a program or a file; of an effect a description, or the Mock.
        """
        thread = threading.current_thread()
        catalogue = self.control.catalogue
        if thread is self.thread:
            return
        if kind == "connection":
            callers = [process for process in self.processes if process.thread is thread]
            sessions = callers[0].list_sessions() if callers else []
            if not any(session.connecting for session in sessions):
                what = f"a connection that the thread {thread.name!r} has opened"
                catalogue.note_unobserved(what)
        elif kind == "program":  # it may open a session
            catalogue.note_unobserved(f"a program, {name!r}{format_calling_place()}")
            self.judge.note(f"what the program {name!r} does")
        elif kind == "file" and not name.endswith(".pyc"):  # it is not put back
            self._note_files([f"the file {name}"])
        elif kind == "effect":
            self.judge.note(name)

    def _note_files(self, files: list[str]) -> None:
        for file in files:
            self.control.catalogue.note_unchecked(f"{file}, which a process writes")

    def _take_step(self, choice: int, expected: Effect) -> None:
        """Let the process of a choice take its step, which is expected to have this effect."""
        process = self.processes[process_of(choice) - 1]
        attempt = self.attempt
        if len(attempt.steps) == self.options.max_steps:
            raise InterleaveError(
                f"A schedule is longer than max_steps={len(attempt.steps)}; a loop may never end. "
                f"{process.describe()}"
            )
        step = process.step
        process.deadlock_timeout = self.monitor.choose_deadlock_timeout(choice)
        attempt.steps.append(step)
        attempt.effects.append(expected)
        attempt.choices.append(choice)
        step.number = len(attempt.steps)
        process.sent = step
        unblocked = self._resume(process)
        if not attempt.discard_reason:
            if victim_of(choice) and not attempt.victim_ended:
                order = attempt.order()
                raise ImpossibleSchedule(f"The last step of {order!r} closes no such deadlock.")
            if attempt.other_victims:
                self.add_victims(attempt.other_victims)
        attempt.other_victims = []
        attempt.victim_ended = False
        # An error releases locks. A local step, such as RELEASE, interrupts a wait for a moment.
        failed = bool(getattr(step, "error", ""))  # only a step that failed has it
        self.affected_others = failed or (unblocked and expected.kind != "local")

    def _judge(self, outcomes: list[Outcome]) -> Judgement:
        functions = [process.function for process in self.processes]
        with self._call_callers_code(f"in the invariant, after schedule {self.attempt.order()}"):
            judgement = self.judge.judge(outcomes, functions, self.attempt.steps)
        self.control.refuse_transaction("the invariant has left a transaction open on")
        return judgement

    def _find_effects(self, ready: Sequence[Process]) -> tuple[dict[int, Effect], Claims]:
        """Return the effects of the next steps, as far as they are needed, and all claims."""
        effects = dict.fromkeys((process.number for process in ready), GLOBAL)
        if not self.reduce:
            return effects, ()
        tables = self.control.catalogue.tables
        claims = [Claim()] * len(self.processes)  # a process that waits or has ended claims nothing
        for process in self._list_unknown(ready):
            earlier = self.attempt.list_steps_of(process.number)
            effect = self._find_effect(process, earlier)
            is_known = effect.kind != "global"
            if is_known and self.control.clock_reads.is_read_after(
                process.number, process.step.sql
            ):
                effect = effect._replace(precedes_clock=True)
            effects[process.number] = effect
            claims[process.number - 1] = find_claim(process.step, effect, earlier, tables)
        return effects, tuple(claims)

    def _list_unknown(self, ready: Sequence[Process]) -> Sequence[Process]:
        """Return the processes whose effects are needed: all ready ones in a new state.

        A known step is repeated, whatever the others would do; its own effect counts later.
        """
        number = len(self.attempt.steps)
        if number >= self.attempt.known_steps:
            return ready
        planned = process_of(self.attempt.planned[number])
        return [process for process in ready if process.number == planned]

    def _find_effect(self, process: Process, earlier: Sequence[TakenStep]) -> Effect:
        """Return what the next step of a process would do to other processes."""
        session = process.session
        catalogue = self.control.catalogue
        if process.step.database or any(step.database for step, _ in earlier):
            return GLOBAL  # the catalogue of the other database is not known
        return find_effect(
            process.step,
            earlier,
            serializable=session.is_serializable(),
            commits=not (session.commit_is_a_step or session.in_transaction()),
            failed=bool(process.sqlstate),
            special_names=catalogue.special_names,
            special_in_writes=catalogue.special_in_writes,
            tables=catalogue.tables if session.is_read_committed() else None,
        )

    @contextlib.contextmanager
    def _call_callers_code(self, where: str) -> Iterator[None]:
        """Enter to call setup, observe or the invariant; an error gets a note of where it was.

        If it waited for a lock that a process holds, until the lock_timeout of the caller's
        connection, the note also says what each process does.
        """
        self.control.change_settings()
        try:
            yield
        except Exception as error:
            error.add_note(f"Raised {where}.")
            if sqlstate(error) == LOCK_NOT_AVAILABLE:
                error.add_note(" ".join(process.describe() for process in self.processes))
            raise
