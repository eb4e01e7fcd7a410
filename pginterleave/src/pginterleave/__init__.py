"""Run every schedule of a race against a real PostgreSQL, and keep the ones that break.

Processes that touch the same rows can take their steps in many orders, and a lost update, a
time-of-check to time-of-use error or a deadlock shows in some of them only. `explore` runs them
all, one after the other, on one connection per process, and checks an invariant after each.
Nothing in the code under test changes, nothing sleeps and nothing is left to luck: an
exploration that is complete and found nothing is a proof for these processes and this set-up.

This file needs Django and PostgreSQL and nothing else. Copy it into a test suite and write:

    @pytest.mark.django_db(transaction=True)    # or a TransactionTestCase
    def test_two_hits_are_both_counted():
        def setup():
            ShortUrl.objects.update_or_create(key="c6UFG", defaults={"hits": 0})

        def invariant(outcomes):
            hits = ShortUrl.objects.get(key="c6UFG").hits
            return "" if hits == 2 else f"hits = {hits}, not 2"

        explore([lambda: resolve("c6UFG")] * 2, setup=setup, invariant=invariant).assert_safe()

A *process* is a callable without arguments; it has a thread and a session of its own, kept from
schedule to schedule and put back to its first state after each. A *step* is one SQL statement it
sends through Django (ORM, raw cursor, savepoint, `executemany`, a FETCH from a server-side
cursor; several statements in one `execute` go to PostgreSQL in one message and are one step), or
a COMMIT or ROLLBACK that ends a transaction, or closing the connection. BEGIN is not a step, nor
is a COMMIT with nothing to commit. When a process ends, its session does: a transaction that is
still open is rolled back, advisory locks of the session are let go, and each is a step too.
A *schedule* is one order of all the steps, written as the process of each: `1212`. A step that has
to wait for a lock stands in the schedule where it was sent; the others go on, and PostgreSQL
itself (`pg_blocking_pids`) says who waits and for whom.

The search is depth-first and exhaustive, in lexicographic order; every schedule counts, also
those that differ only in steps that cannot affect each other. Those need not all be run: with
`reduce=True` one of them stands for the others, and they are counted. Between two steps of the
schedule Python runs in one process at a time, so that shared Python objects are safe to use.

A statement outside a transaction commits by itself, and that is part of its step. In production
another statement can come before this COMMIT: so two that look and write in one statement, as in
INSERT … WHERE NOT EXISTS (…), can both find nothing. With `split_autocommit=True` the COMMIT of
such a statement is a step of its own, and such a race is found: of an INSERT, UPDATE, DELETE or
MERGE that one `execute` sends alone. `executemany`, COPY and a function that writes stay one step.

What it cannot see: what happens within a statement while another one runs, as when two lock many
rows in opposite order; of several that wait for the same lock, a later one that overtakes; state
outside the database; other connections and threads that a process opens (they work, unobserved,
and a process that waits for one of their locks ends in `StepTimeout`); what the driver is asked to
do behind Django's back (`connection.connection`); the statements inside a function or a trigger,
which are one step with the statement that calls them.

What it cannot hold still: sequences and clocks go on from schedule to schedule, so `setup` should
choose its own primary keys, far above what the sequence hands out; rows come in the order in which
they lie, unless there is an ORDER BY; whom PostgreSQL refuses under SERIALIZABLE can depend on
where they lie, too, and on what else the server does. Parameters are not compared from run to run.

Time stands still while a step can be taken: a `lock_timeout` ends a wait only when nobody else can
go on, so give it and `statement_timeout` 100 ms or more; that they might run out while others
dawdle is not explored. A deadlock is found at once if the role may set `deadlock_timeout`, and its
victim is the process that closed the circle; otherwise it takes the server's `deadlock_timeout`,
and the victim is the one that waited longest.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import inspect
import itertools
import linecache
import os
import re
import select
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType, SimpleNamespace
from typing import Any

import django
from django.db import DEFAULT_DB_ALIAS, Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorDebugWrapper, CursorWrapper

__all__ = [
    "CannotExplore",
    "Exploration",
    "ImpossibleSchedule",
    "InterleaveError",
    "NotDeterministic",
    "Outcome",
    "Schedule",
    "Step",
    "StepTimeout",
    "Timeline",
    "explore",
    "run_schedule",
]

MOST_PROCESSES = 9  # a schedule is written with one digit for each step
ROWS_KEPT = 10  # of what a statement returned, for the timeline
FIRST_PAUSE = 0.0006  # seconds a statement gets before PostgreSQL is asked whether it waits
LONGEST_PAUSE = 0.005  # seconds between two such questions
FIRST_PATIENCE = 0.0015  # seconds; a deadlock_timeout of 1 ms has passed by then, nearly always
LONGEST_PATIENCE = 0.05
LONGEST_LOCK_TIMEOUT = 2_147_483  # seconds; PostgreSQL knows no longer one
ATTEMPTS = 100  # at a schedule in which PostgreSQL woke several processes at the same moment
FAIR_ATTEMPTS = 30  # of these, so many in which none of the woken may overtake another
SHUTDOWN_TIMEOUT = 2.0  # seconds for all threads and sessions to end
FIRST_SHUTDOWN_TIMEOUT = 0.1  # of these, so many for each to end by itself

IDLE, AT_STEP, AWAY, BACK, DONE, FAILED = "idle", "at a step", "away", "back", "done", "failed"
IN_TRANSACTION = (2, 3)  # libpq's PQTRANS_INTRANS and PQTRANS_INERROR
DEADLOCK_DETECTED, LOCK_NOT_AVAILABLE, QUERY_CANCELED = "40P01", "55P03", "57014"

# What is raised by mistake: an outcome, but one that leaves nothing proven.
UNEXPECTED_EXCEPTIONS = (
    AttributeError,
    ImportError,
    NameError,
    TypeError,
    KeyboardInterrupt,
    SystemExit,
)

Timeline = tuple["Step", ...]
Setup = Callable[[], object]
Observe = Callable[[], object]
Invariant = Callable[[list["Outcome"]], str | None]


class InterleaveError(Exception):
    """A race could not be explored. Every error this module raises is one of these."""


class CannotExplore(InterleaveError):
    """The exploration was not begun; the message says what to do instead."""


class StepTimeout(InterleaveError):
    """A process did not come back from a step in time, and was not waiting for another."""


class ImpossibleSchedule(InterleaveError):
    """A schedule names a process that cannot take the next step, or ends too early."""


class NotDeterministic(InterleaveError):
    """The same steps in the same order led somewhere else than before."""


class _Abandoned(BaseException):
    """Ends a process that is no longer wanted; no `except Exception` swallows it."""


@dataclass(frozen=True)
class Outcome:
    """What a process came to: the value it returned, or the exception it raised."""

    returned: Any = None
    raised: BaseException | None = None


@dataclass(frozen=True)
class Step:
    """One step of a schedule, and what came of it.

    It was sent as step `number` (from 1) and returned with step `until`, which is another one
    when it waited: for the processes `waited_for`, until the step of another let it go on.
    `rows` holds the first rows the process fetched, `rowcount` is the driver's (-1: not known),
    `error` the driver's exception class and `message` its first line. `filename`, `lineno` and
    `function` are the line outside Django that sent it. `observed` is what `observe` returned.
    """

    number: int
    process: int
    kind: str
    sql: str
    params: Any
    filename: str
    lineno: int
    function: str
    until: int
    waited_for: tuple[int, ...] = ()
    rowcount: int = -1
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    error: str = ""
    message: str = ""
    observed: Any = None

    def statement(self) -> str:
        """The SQL for a reader: parameters filled in, without quotes, long lists of columns cut."""
        sql = self.sql
        if self.params and self.kind != "FETCH":
            with contextlib.suppress(TypeError, ValueError, KeyError):
                named = isinstance(self.params, dict)
                sql %= (
                    {name: _literal(value) for name, value in self.params.items()}
                    if named
                    else tuple(map(_literal, self.params))
                )
        sql = " ".join(re.sub(r'"(\w+)"\."(\w+)"', r"\2", sql).replace('"', "").split())
        return re.sub(r"^SELECT (?:\w+, ){3,}\w+ FROM", "SELECT … FROM", sql)

    def result(self) -> str:
        """What came back, in a few words: the error, the first row or the number of rows."""
        if self.error:
            return f"!! {self.error}"
        if self.rows:
            more = max(self.rowcount, len(self.rows)) - 1
            values = zip(self.columns, self.rows[0], strict=False)
            shown = ", ".join(f"{name} = {value}" for name, value in values)
            return f"→ {shown}" + (f" (+{more})" if more > 0 else "")
        if self.kind in {"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"} and self.rowcount >= 0:
            return f"→ {self.rowcount} row{'' if self.rowcount == 1 else 's'}"
        return ""


@dataclass(frozen=True)
class Schedule:
    """One schedule that was run: its `order` (`1212`), its steps, and what came of them.

    `violation` says what does not hold afterwards, and is empty when the invariant holds.
    """

    order: str
    timeline: Timeline
    outcomes: tuple[Outcome, ...]
    violation: str

    def draw(self, width: int = 40) -> str:
        """Return the timeline as text, a column of `width` characters for each process."""
        cells: dict[tuple[int, int], list[str]] = {}
        for step in self.timeline:
            sent = cells.setdefault((step.number, step.process), [])
            sent.append(step.statement())
            if step.waited_for:
                sent.append("… waits for process " + " and ".join(map(str, step.waited_for)))
            back = cells.setdefault((step.until, step.process), [])
            if step.until != step.number:
                back.insert(0, f"… resumes step {step.number}")
            if step.result():
                back.insert(len(back) if back is sent else 1, step.result())
        processes = range(1, len(self.outcomes) + 1)
        observed = any(step.observed is not None for step in self.timeline)
        lines = [["", *(f"process {number}" for number in processes), "afterwards" * observed]]
        for step in self.timeline:
            columns = [
                list(itertools.chain(*(_wrap(text, width) for text in cells.get(cell, ()))))
                for cell in ((step.number, number) for number in processes)
            ]
            after = _wrap(str(step.observed), width) if observed else []
            rows = itertools.zip_longest([str(step.number)], *columns, after, fillvalue="")
            lines += [list(row) for row in rows]
        for number, outcome in zip(processes, self.outcomes, strict=True):
            if outcome.raised is not None:
                error = f"raises {_what_and_where(outcome.raised)}"
                lines.append(["", *("" for _ in range(1, number)), error])
        margin = len(str(len(self.timeline))) + 2
        return "\n".join(
            (line[0].ljust(margin) + "  ".join(cell.ljust(width) for cell in line[1:])).rstrip()
            for line in lines
        )

    def unexpected_exception(self) -> str:
        """Say who raised what nobody means to raise: one of UNEXPECTED_EXCEPTIONS."""
        return next(
            (
                f"process {number} raises {_what_and_where(outcome.raised)}"
                + (f" in schedule {self.order}" if self.order else "")
                for number, outcome in enumerate(self.outcomes, start=1)
                if isinstance(outcome.raised, UNEXPECTED_EXCEPTIONS)
            ),
            "",
        )


@dataclass(frozen=True)
class Exploration:
    """The result of `explore`: the `orders` of the schedules that ran, and those that broke.

    `schedules` is the number of all schedules, and `violating` that of those that break; without
    `reduce` all of them ran. `truncated` says which limit ended the search early, and is empty when
    it is complete. `seconds` is the time it took. `unexpected` says who raised one of the
    UNEXPECTED_EXCEPTIONS in a schedule that does not violate the invariant.
    """

    orders: tuple[str, ...]
    violations: tuple[Schedule, ...]
    schedules: int
    violating: int
    truncated: str
    seconds: float
    unexpected: str
    _scheduler: Callable[[], Scheduler] = field(repr=False, compare=False)

    @property
    def complete(self) -> bool:
        """Whether every schedule was counted. Only then does finding nothing prove anything."""
        return not self.truncated

    @property
    def counterexample(self) -> Schedule | None:
        """The shortest violating schedule, lexicographically first; None without one."""
        return min(self.violations, key=lambda each: (len(each.order), each.order), default=None)

    def replay(self, order: str, *, observe: Observe | None = None) -> Schedule:
        """Run one schedule again; see `run_schedule`."""
        return _run_one(order, self._scheduler, observe)

    def assert_safe(self) -> None:
        """Raise AssertionError with the counterexample drawn, or because nothing is proven.

        That is when the search was truncated, when no process has sent anything, and when one
        raised an exception that nobody expects, such as an AttributeError.
        """
        __tracebackhide__ = True  # for pytest: the counterexample says it all
        if self.counterexample:
            raise AssertionError(
                f"{self}. The shortest is {self.counterexample.order}:\n\n"
                f"{self.counterexample.draw()}\n\n{self.counterexample.violation}"
            )
        if self.truncated:
            raise AssertionError(f"Not proven: {self}.")
        if self.orders == ("",):
            raise AssertionError("Not proven: no process has sent anything to the database.")
        if self.unexpected:
            raise AssertionError(f"Not proven: {self}, but {self.unexpected}.")

    def __str__(self) -> str:
        so_far = "the first " if self.truncated else ""
        text = f"{self.violating} of {so_far}{self.schedules} schedules violate the invariant"
        if len(self.orders) < self.schedules:
            text += f" ({len(self.orders)} distinct ones ran)"
        return f"{text}; the search was truncated: {self.truncated}" if self.truncated else text


def explore(
    processes: Sequence[Callable[[], object]],
    *,
    setup: Setup,
    invariant: Invariant,
    using: str = DEFAULT_DB_ALIAS,
    observe: Observe | None = None,
    each: Callable[[Schedule], object] = lambda _: None,
    reduce: bool = False,
    split_autocommit: bool = False,
    max_schedules: int = 10_000,
    max_seconds: float = 60.0,
    max_steps: int = 200,
    step_timeout: float = 10.0,
    progress: bool | None = None,
) -> Exploration:
    """Run every schedule of the processes and return which of them break the invariant.

    Args:
        processes: one to nine callables without arguments. What they return or raise is their
            outcome. They have to do the same whenever the same schedule is run.
        setup: puts the database into its first state; runs before each schedule, on the
            caller's connection, in autocommit mode.
        invariant: runs after each schedule, on the caller's connection, with the list of
            outcomes. Returns what is broken, or None or "" if nothing is; a failing assert in
            it is also something broken.
        using: the alias of the database.
        observe: see `run_schedule`; it makes an exploration slower.
        each: called with every schedule after it ran, the broken and the others.
        reduce: of the schedules that differ only in the order of steps that cannot affect each
            other, run one and count the others. Such steps are savepoints, setting the isolation
            level, and plain SELECTs beside each other or beside what is written and not
            committed, unless transactions are SERIALIZABLE. What a step does is taken from its
            SQL and from what came of it: so there must be no view, trigger, rule, sequence or
            system catalogue through which a statement reads or does more than it says, and the
            processes must share nothing in Python.
        split_autocommit: whether the COMMIT of an INSERT, UPDATE, DELETE or MERGE outside a
            transaction is a step of its own, so that others can come between.
        max_schedules: the search is truncated after so many schedules have run.
        max_seconds: the search is truncated after the schedule that ends later than this.
        max_steps: a longer schedule is an error, as a loop may never end.
        step_timeout: seconds for one step, and for the Python up to the next one.
        progress: whether to draw a progress bar on stderr; None draws it when stderr is a
            terminal and the exploration takes more than a second.

    Raises:
        CannotExplore: inside a transaction, without PostgreSQL, with a limit out of range.
        StepTimeout: a process hangs; the message says where.
        NotDeterministic: a process took another way than the last time.
        InterleaveError: see `max_steps`; and when a process cannot connect.
        Exception: whatever `setup`, `invariant` or `observe` raises, with a note saying when,
            and whatever `each` raises.
    """
    if max_schedules < 1 or max_seconds <= 0:
        raise CannotExplore("max_schedules and max_seconds must be greater than zero.")
    new_scheduler = functools.partial(
        Scheduler,
        tuple(processes),
        setup=setup,
        invariant=invariant,
        using=using,
        split_autocommit=split_autocommit,
        max_steps=max_steps,
        step_timeout=step_timeout,
    )
    search, violations, truncated, unexpected = _Search(len(processes), reduce), [], "", ""
    orders: list[str] = []
    bar = _ProgressBar(sys.stderr.isatty() if progress is None else progress)
    began = time.monotonic()
    with new_scheduler() as scheduler, contextlib.closing(bar):
        scheduler.reduce = reduce
        while True:
            schedule = scheduler.run(
                search.choose, before=search.rewind, observe=observe, known=search.known
            )
            if search.count(
                violates=bool(schedule.violation), affected_others=scheduler.affected_others
            ):
                orders.append(schedule.order)
                each(schedule)
                if schedule.violation:
                    violations.append(schedule)
                else:
                    unexpected = unexpected or schedule.unexpected_exception()
            seconds = time.monotonic() - began
            bar.show(search.share(), len(orders), len(violations), seconds)
            if not search.advance():
                break
            if len(orders) >= max_schedules:
                truncated = f"max_schedules={max_schedules} reached"
            elif seconds >= max_seconds:
                truncated = f"max_seconds={max_seconds} passed after {len(orders)} schedules"
            if truncated:
                truncated += scheduler.why_slow()
                break
    schedules, violating = search.counted()
    return Exploration(
        orders=tuple(orders),
        violations=tuple(violations),
        schedules=schedules,
        violating=violating,
        truncated=truncated,
        seconds=time.monotonic() - began,
        unexpected=unexpected,
        _scheduler=new_scheduler,
    )


def run_schedule(
    order: str,
    processes: Sequence[Callable[[], object]],
    *,
    setup: Setup,
    invariant: Invariant,
    using: str = DEFAULT_DB_ALIAS,
    observe: Observe | None = None,
    split_autocommit: bool = False,
    max_steps: int = 200,
    step_timeout: float = 10.0,
) -> Schedule:
    """Run one schedule from its written form, step for step.

    Args:
        order: the process of each step, as in `1212`; all steps of all processes.
        observe: called after each step, on the caller's connection, which sees what is
            committed; what it returns is the step's `observed`.

    The other arguments, and what is raised, are as for `explore`.

    Raises:
        ImpossibleSchedule: a process cannot take its step because it waits or has ended, or
            the schedule ends before the processes do.
    """
    new_scheduler = functools.partial(
        Scheduler,
        tuple(processes),
        setup=setup,
        invariant=invariant,
        using=using,
        split_autocommit=split_autocommit,
        max_steps=max_steps,
        step_timeout=step_timeout,
    )
    return _run_one(order, new_scheduler, observe)


def _run_one(
    order: str, new_scheduler: Callable[[], Scheduler], observe: Observe | None
) -> Schedule:
    def choose(ready: dict[int, str], *_: object) -> int:
        taken = len(scheduler.taken)
        if taken == len(order):
            left = [each.number for each in scheduler.processes if each.state != DONE]
            raise ImpossibleSchedule(f"{order!r} is over before {_names(left)}.")
        if order[taken] not in map(str, ready):
            raise ImpossibleSchedule(
                f"Step {taken + 1} of {order!r} cannot be taken by process {order[taken]}: "
                f"only {_names(list(ready))} can go on after {order[:taken]!r}."
            )
        return int(order[taken])

    with new_scheduler() as scheduler:
        schedule = scheduler.run(choose, observe=observe)
    if schedule.order != order:
        raise ImpossibleSchedule(f"{order!r} goes on after all have ended, at {schedule.order!r}.")
    return schedule


Place = tuple[Any, ...]
Situation = tuple[Place, ...]  # where each process stands: at which step, waiting for whom, done
# Who of the ready, each with the reach of its next step, takes it; and whether the last step did
# more than its reach says.
Choose = Callable[[dict[int, str], Situation, bool], int]

# The reach of a step: it affects nobody else; it is a plain SELECT; it writes inside a transaction,
# so that no SELECT of another one sees it; or it can affect everybody.
OWN, READ, WRITE, ALL = "own", "read", "write", "all"
Event = tuple[str, str, str, tuple[int, ...]]  # kind, SQL, reach, what of each process came before
Trace = tuple[tuple[Event, ...], ...]  # the events of each process: the same for equivalent orders


@dataclass
class _Fork:
    """A point of the schedule: where everyone stood, who was chosen, who is left to choose."""

    situation: Situation
    ready: dict[int, str]
    chosen: int
    left: list[int]
    trace: Trace
    schedules: int = 0  # how many of those that begin like this are counted already
    violating: int = 0

    def after(self, number: int) -> Trace:
        """Return the trace when that process has taken the next step.

        Two orders have the same trace when they differ only in steps that are next to each other
        and independent. They lead to the same state, and what follows is the same.
        """
        kind, sql, *_ = self.situation[number - 1]
        reach = self.ready[number]
        before = tuple(
            sum(_dependent(reach, event[2]) for event in events) for events in self.trace
        )
        own = (*self.trace[number - 1], (kind, sql, reach, before))
        return (*self.trace[: number - 1], own, *self.trace[number:])


def _dependent(reach: str, other: str) -> bool:
    """Return whether it can make a difference which of two steps of two processes goes first."""
    return not (OWN in (reach, other) or (READ in (reach, other) and ALL not in (reach, other)))


class _Search:
    """Depth-first search over the choices of who takes the next step."""

    def __init__(self, processes: int, reduce: bool) -> None:
        self.path: list[_Fork] = []
        self.known = 0  # how much of the path is a prefix that has been run before
        self.depth = 0
        self.reduce = reduce
        self.start: Trace = ((),) * processes
        self.done: dict[Trace, tuple[int, int]] = {}  # schedules from there on, and violating ones
        self.total = (0, 0)
        self.idle = False  # all that this schedule can come to is counted already

    def rewind(self) -> None:
        """Begin a schedule, possibly one that was begun before."""
        self.depth, self.idle = 0, False
        del self.path[self.known :]

    def choose(self, ready: dict[int, str], situation: Situation, affected_others: bool) -> int:
        if self.idle:
            return next(iter(ready))
        self._widen(affected_others)
        if self.depth == len(self.path):
            before = self.path[-1] if self.path else None
            trace = before.after(before.chosen) if before and self.reduce else self.start
            self.path.append(_Fork(situation, ready, 0, list(ready), trace))
            self.idle = not self._turn(self.path[-1])
            if self.idle:
                return next(iter(ready))
        fork = self.path[self.depth]
        if fork.situation != situation:
            order = "".join(str(each.chosen) for each in self.path[: self.depth])
            number = next(
                number
                for number, (then, now) in enumerate(
                    zip(fork.situation, situation, strict=True), start=1
                )
                if then != now
            )
            raise NotDeterministic(
                f"After the same steps {order!r}, process {number} "
                f"{_told(fork.situation[number - 1])} the first time and "
                f"{_told(situation[number - 1])} now. A process has to do the same whenever the "
                "same schedule is run: give it fixed keys, clocks and seeds, and an "
                "order where it takes the first row, and let setup undo what it leaves in Python "
                "and in the database."
            )
        self.depth += 1
        return fork.chosen

    def _turn(self, fork: _Fork) -> bool:
        """Choose the next one who leads to something new, and count what the others lead to."""
        while fork.left:
            fork.chosen = fork.left.pop(0)
            known = self.done.get(fork.after(fork.chosen)) if self.reduce else None
            if known is None:
                return True
            fork.schedules, fork.violating = fork.schedules + known[0], fork.violating + known[1]
        return False

    def _widen(self, affected_others: bool) -> None:
        """Take the last step for one that affects everybody, if it turned out to be."""
        if affected_others and self.depth:
            fork = self.path[self.depth - 1]
            fork.ready[fork.chosen] = ALL

    def count(self, *, violates: bool, affected_others: bool) -> bool:
        """Count the schedule that has run; return False when it was counted before."""
        if self.idle:
            return False
        self._widen(affected_others)
        if not self.path:  # nobody took a step
            self.total = (1, int(violates))
            return True
        last = self.path[-1]
        last.schedules, last.violating = last.schedules + 1, last.violating + violates
        if self.reduce:
            self.done[last.after(last.chosen)] = (1, int(violates))
        return True

    def counted(self) -> tuple[int, int]:
        """Return how many schedules were counted, and how many of them break."""
        return (
            self.total[0] + sum(fork.schedules for fork in self.path),
            self.total[1] + sum(fork.violating for fork in self.path),
        )

    def advance(self) -> bool:
        """Go to the next schedule in lexicographic order; False when there is none."""
        while self.path and not self._turn(self.path[-1]):
            fork = self.path.pop()
            if self.reduce:
                self.done[fork.trace] = (fork.schedules, fork.violating)
            if self.path:
                self.path[-1].schedules += fork.schedules
                self.path[-1].violating += fork.violating
            else:
                self.total = (fork.schedules, fork.violating)
        self.known = len(self.path)
        return bool(self.path)

    def share(self) -> float:
        """Estimate which share of the search is behind us, from 0 to 1."""
        share, whole = 0.0, 1.0
        for fork in self.path:
            whole /= len(fork.ready)
            share += whole * (len(fork.ready) - len(fork.left) - 1)
        return share + whole


class Scheduler:
    """Lets one process at a time take one step, and knows who waits for whom."""

    def __init__(
        self,
        processes: Sequence[Callable[[], object]],
        *,
        setup: Setup,
        invariant: Invariant,
        using: str,
        split_autocommit: bool,
        max_steps: int,
        step_timeout: float,
    ) -> None:
        _refuse(processes, using, max_steps, step_timeout)
        self.setup, self.invariant = setup, invariant
        self.max_steps, self.step_timeout = max_steps, step_timeout
        self.caller = connections[using]
        self.taken: list[SimpleNamespace] = []
        self.stops: SimpleQueue[tuple[Process, str]] = SimpleQueue()
        self.processes = [
            Process(
                number, function, self.caller, self.stops, self._wait_until_gone, split_autocommit
            )
            for number, function in enumerate(processes, start=1)
        ]
        self.reduce = False  # whether the reach of a step is of interest
        self.affected_others = False  # the last step did more than its reach says
        self.raced = False  # PostgreSQL woke several at once: what came of it may differ
        self.discard_reason = ""  # why this run of the schedule does not count
        self.stuck = False  # nobody can go on until PostgreSQL ends a wait
        self.settings: dict[str, str] = {}  # the caller's, to be set again
        self.session: Any = None  # in which they are changed: the driver's connection
        self.fair = True  # whether a process may not be overtaken by one that came later
        self.known = 0  # how many steps of the schedule have been run before
        self.patience = 0.0  # seconds each wait gets for its deadlock check
        self.slow_deadlocks = 0  # which took PostgreSQL its own deadlock_timeout to find

    def __enter__(self) -> Scheduler:
        try:
            self._prepare()
            for process in self.processes:
                process.start()
            self._settle()
        except BaseException as error:
            self._end(error)
            raise
        return self

    def _prepare(self) -> None:
        """Change the caller's settings, again when it has connected again."""
        if self.caller.connection is not None and self.caller.connection is self.session:
            return
        # What a crash of the server would lose is of no interest here; the order in which
        # transactions become visible is the same. And setup, the invariant and observe may not
        # wait for ever for what a process has locked.
        limit = f"{min(self.step_timeout, LONGEST_LOCK_TIMEOUT):.3f}s"
        for name, value in (("synchronous_commit", "off"), ("lock_timeout", limit)):
            before = self._ask(f"SHOW {name}")[0][0]
            if name == "synchronous_commit" or before == "0":
                self.settings[name] = before
                self._ask(SET, name=name, value=value)
        self.session = self.caller.connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._end(error)

    def run(
        self,
        choose: Choose,
        *,
        before: Callable[[], object] = lambda: None,
        observe: Observe | None = None,
        known: int = 0,
    ) -> Schedule:
        """Run one schedule; `choose` says who of the ready processes takes the next step.

        `before` runs before each attempt at it, and `known` of its steps have been run before.
        """
        self.known = known
        for attempt in range(ATTEMPTS):
            self.fair = attempt < FAIR_ATTEMPTS
            before()
            schedule = self._try(choose, observe)
            if not self.discard_reason:
                return schedule
        raise NotDeterministic(f"{self.discard_reason} ({ATTEMPTS} attempts)")

    def _try(self, choose: Choose, observe: Observe | None) -> Schedule:
        self.taken, self.raced, self.discard_reason = [], False, ""
        with self._noted("in setup"):
            self.setup()
        _refuse_transaction(self.caller, "setup has left a transaction open on")
        for process in self.processes:
            process.go()
            self._settle(process)
        while ready := [process for process in self.processes if process.state == AT_STEP]:
            process, reaches = ready[0], {}
            if not self.discard_reason:
                try:
                    reaches = {
                        each.number: self._reach(each) if self.reduce else ALL for each in ready
                    }
                    number = choose(reaches, self._situation(), self.affected_others)
                    process = self.processes[number - 1]
                except NotDeterministic as error:
                    if not self.raced:
                        raise
                    self.discard_reason = str(error)  # the way to the end no longer matters
            self._take(process, reaches.get(process.number, ALL))
            if observe:
                with self._noted("in observe"):
                    self.taken[-1].observed = observe()
        outcomes = [process.outcome for process in self.processes]
        order = "".join(str(step.process) for step in self.taken)
        return Schedule(
            order=order,
            timeline=tuple(Step(**vars(step)) for step in self.taken),
            outcomes=tuple(outcomes),
            violation="" if self.discard_reason else self._judge(outcomes, order),
        )

    def _take(self, process: Process, reach: str) -> None:
        if len(self.taken) == self.max_steps:
            raise InterleaveError(
                f"A schedule is longer than max_steps={self.max_steps}; a loop may never end. "
                f"{process.describe()}"
            )
        step = process.step
        self.taken.append(step)
        step.number = len(self.taken)
        process.sent = step
        process.go()
        moved = self._settle(process)
        # An error gives locks back. Who waited for a subtransaction waits on, for the whole one.
        self.affected_others = bool(getattr(step, "error", "")) or (moved and reach != OWN)

    def _judge(self, outcomes: list[Outcome], order: str) -> str:
        try:
            with self._noted(f"in the invariant, after schedule {order}"):
                violation = self.invariant(outcomes)
        except AssertionError as error:
            return str(error) or "an assertion of the invariant failed"
        _refuse_transaction(self.caller, "the invariant has left a transaction open on")
        if violation is not None and not isinstance(violation, str):
            raise CannotExplore(f"The invariant must return a str or None, not {violation!r}.")
        return violation or ""

    def _reach(self, process: Process) -> str:
        """Return whom the step that the process stands at can affect."""
        kind, sql = process.step.kind, process.step.sql
        own = [step for step in self.taken if step.process == process.number]
        if _SEVERAL.search(sql):
            return ALL
        # Whom PostgreSQL ends to keep transactions serializable depends on who reads when.
        serializable = process.is_serializable() or any(
            "SERIALIZABLE" in f"{step.sql} {step.params}".upper() for step in own
        )
        if kind == "SELECT" and not _MORE_THAN_READS.search(sql):
            return ALL if serializable else READ
        if kind in ("INSERT", "UPDATE", "DELETE"):
            committed = not (process.apart or process.is_in_transaction())
            return ALL if committed or serializable else WRITE
        if _SET_ISOLATION.fullmatch(sql):
            return OWN  # the snapshot comes with the first query, not with this
        if kind in ("SAVEPOINT", "RELEASE"):
            return OWN  # whoever waits for a subtransaction goes on to wait for the whole one
        if any("SAVEPOINT" in step.sql.upper() and _SEVERAL.search(step.sql) for step in own):
            return ALL  # who knows which there are
        savepoints = [_savepoint(step.sql) for step in own if step.kind == "SAVEPOINT"]
        if process.code and savepoints == [] and sql == "ROLLBACK":
            return OWN  # PostgreSQL's error has undone all there was
        if process.code and kind == "ROLLBACK TO" and savepoints[-1:] == [_savepoint(sql)]:
            # It has undone all since the last savepoint, if that is the one of this name.
            return OWN if savepoints.count(savepoints[-1]) == 1 else ALL
        return ALL

    def _situation(self) -> Situation:
        return tuple(process.place() for process in self.processes)

    def _settle(self, runner: Process | None = None) -> bool:
        """Wait until every process is at its next step, done, or blocked by another.

        Returns whether somebody who waited before does so no more, or for others.
        """
        waited = {process: process.blockers for process in self.processes if process.blockers}
        self._wait(runner)
        back = [process for process in self.processes if process.state == BACK]
        moved = [each for each in waited if each in back or each.blockers != waited[each]]
        if len(moved) > 1:
            self._check_order(moved, back)
        while back:  # one after the other, so that Python runs in one process at a time
            back[0].go()
            self._wait(runner)
            back = [process for process in self.processes if process.state == BACK]
        since = max((each.since for each in self.processes if each.blockers), default=0.0)
        left = since + self.patience - time.monotonic()
        if left > 0:
            time.sleep(left)
        return bool(moved)

    def _check_order(self, moved: list[Process], back: list[Process]) -> None:
        """See to it that of several waiting processes, the one that came first goes first.

        PostgreSQL wakes them at the same moment, and a later one may overtake. Mostly, what comes
        of that is what comes of the schedule in which the later one is sent first. Where it is
        not, as can be when further processes take steps in between, it is not explored.
        """
        self.raced = True
        since = {}
        if len(back) > 1:
            since = dict(self._ask(IDLE_SINCE, pids=[process.pid for process in back]))
        for first, second in itertools.combinations(sorted(moved, key=lambda p: p.step.number), 2):
            if second in back and first in back:
                then = (since[second.pid], since[first.pid])
                overtaken = None not in then and then[0] < then[1]  # None: the role may not know
            else:
                new = len(self.taken) >= self.known  # otherwise, it is how it always goes
                overtaken = second in back and second.number in first.blockers and new
            if overtaken and self.fair:
                self.discard_reason = f"Process {second.number} overtook process {first.number}."

    def _wait(self, runner: Process | None) -> None:
        limit = time.monotonic() + self.step_timeout
        pause = FIRST_PAUSE
        while away := [process for process in self.processes if process.state == AWAY]:
            if self._arrived(pause, runner):
                pause = 0.0  # whoever it let go is on the way already: ask at once
                continue
            blocked = self._who_waits(away)
            others = any(process.state in (AT_STEP, BACK) for process in self.processes)
            if len(blocked) == len(away):  # nobody moves
                for process in away:
                    if process.sent:  # not in what is no step, such as putting a session back
                        vars(process.sent).setdefault("waited_for", process.blockers)
                self.stuck = not others or _circular(blocked)
                if not self.stuck:
                    return
            if time.monotonic() > limit:
                raise StepTimeout(
                    f"No step was finished within step_timeout={self.step_timeout} seconds"
                    f" after {''.join(str(step.process) for step in self.taken)!r}. "
                    + " ".join(process.describe() for process in away)
                )
            pause = min(LONGEST_PAUSE, max(2 * pause, FIRST_PAUSE / 4))

    def _arrived(self, pause: float, runner: Process | None) -> bool:
        try:
            process, state = self.stops.get(timeout=pause)
        except Empty:
            return False
        process.state = state
        if process.state == FAILED:
            raise InterleaveError(
                f"Process {process.number} cannot go on: {process.failure}"
            ) from process.failure
        blockers = process.blockers
        if process.state != BACK:
            process.blockers = ()
        step, process.sent = process.sent, None
        if step:
            step.until = len(self.taken)
            self._check_wait(process, step, runner, waited=bool(blockers))
        self.stuck = False
        return True

    def _check_wait(
        self, process: Process, step: SimpleNamespace, runner: Process | None, *, waited: bool
    ) -> None:
        """See to it that what ended a wait is what would end it the next time."""
        if process.code == DEADLOCK_DETECTED:
            # A deadlock can be over before we have seen who waited for whom; its report says it.
            first, *_ = process.detail.splitlines() or [""]
            others = {str(each.pid): each.number for each in self.processes if each != process}
            pids = re.findall(r"\d+", first)
            told = (others[pid] for pid in pids if pid in others)
            step.waited_for = tuple(dict.fromkeys((*getattr(step, "waited_for", ()), *told)))
            pids = re.findall(r"\d+", process.detail)
            circle = [each for each in self.processes if str(each.pid) in pids]
            if not process.prompt:
                self.slow_deadlocks += 1
                self.raced = True
                longest = min(circle, key=lambda each: each.since, default=process)
                if self.fair and process != longest:
                    self.discard_reason = (
                        "The victim of a deadlock was not the one that waited longest."
                    )
            elif runner not in (None, process) and runner in circle:
                self.patience = min(LONGEST_PATIENCE, max(FIRST_PATIENCE, 2 * self.patience))
                self.discard_reason = "The victim of a deadlock was not the process that closed it."
        elif process.code in (LOCK_NOT_AVAILABLE, QUERY_CANCELED):
            self.raced = True
            name = "lock_timeout"
            if process.code == QUERY_CANCELED:  # which ends what does not wait, too
                name = "statement_timeout"
            # It may be over before we have seen it wait.
            if not process.foreign_blockers and (name == "lock_timeout" or process.asked < 2):
                waited = True
            if process.timed_out and waited and not self.stuck:
                self.discard_reason = (
                    f"A {name} ended the wait of process {process.number} while others could "
                    f"still go on: it is too short. It had sent {step.sql!r}, at "
                    f"{step.filename}:{step.lineno} ({step.function})."
                )

    def _who_waits(self, away: list[Process]) -> dict[Process, tuple[int, ...]]:
        """Ask PostgreSQL which of these processes wait for which others."""
        # Read once: a process that connects gets another.
        pids = {process.pid: process for process in self.processes}
        asked = [pid for pid, process in pids.items() if process in away]
        for process in away:
            process.foreign_blockers = []
            process.asked += 1
        blocked = {}
        # pg_locks is one consistent snapshot: if all of them wait in it, nobody is moving.
        for pid, age, blockers in self._ask(WHO_WAITS, pids=asked):
            process = pids[pid]
            process.foreign_blockers += sorted(set(blockers) - pids.keys())
            numbers = tuple(sorted({pids[each].number for each in blockers if each in pids}))
            if numbers:
                blocked[process] = process.blockers = numbers
                process.since = time.monotonic() - (age or 0.0)
        return blocked

    def _wait_until_gone(self, *pids: int) -> None:
        """A session that was closed holds its locks for another moment; wait for its end."""
        limit = time.monotonic() + SHUTDOWN_TIMEOUT
        while time.monotonic() < limit:
            self._ask("SELECT pg_stat_clear_snapshot()")  # in case a transaction was left open
            if not self._ask(WHO_LIVES, pids=list(pids)):
                return
            time.sleep(0.001)

    def why_slow(self) -> str:
        """Say what made a search slow and can be mended, to go behind why it was truncated."""
        if not self.slow_deadlocks:
            return ""
        return (
            f"; {self.slow_deadlocks} times a deadlock took the server's deadlock_timeout, which "
            "this role may not set (GRANT SET ON PARAMETER deadlock_timeout)"
        )

    @contextlib.contextmanager
    def _noted(self, where: str) -> Iterator[None]:
        """Say of an error where it was raised and, if it waited, what the processes were at."""
        self._prepare()
        try:
            yield
        except Exception as error:
            error.add_note(f"Raised {where}.")
            if _code(error) == LOCK_NOT_AVAILABLE:
                error.add_note(" ".join(process.describe() for process in self.processes))
            raise

    def _ask(self, sql: str, **params: Any) -> list[Any]:
        """Ask PostgreSQL over the caller's connection, which is idle while the processes run.

        Past Django, which would log it.
        """
        self.caller.ensure_connection()
        with self.caller.wrap_database_errors, self.caller.connection.cursor() as cursor:
            cursor.execute(sql, params or None)
            return cursor.fetchall() if cursor.description else []

    def _end(self, error: BaseException | None) -> None:
        """Leave no thread, session or lock behind."""
        limit = time.monotonic() + SHUTDOWN_TIMEOUT
        hanging = [process for process in self.processes if process.state == AWAY]
        for process in self.processes:
            process.abandon()
        self._terminate(hanging)
        for process in hanging:
            process.interrupt()
        for process in self.processes:
            if process.thread.ident:
                process.thread.join(
                    max(0.01, min(FIRST_SHUTDOWN_TIMEOUT, limit - time.monotonic()))
                )
        left = self._alive()
        self._terminate(left)
        while left and time.monotonic() < limit:
            # A bare `except:` swallows this, but not when it comes between two rounds of its loop.
            for process in left:
                process.interrupt()
            left[0].thread.join(0.001)
            left = self._alive()
        with contextlib.suppress(Error):
            for name, value in self.settings.items():
                self._ask(SET, name=name, value=value)
        open_ = True
        with contextlib.suppress(Error):
            self._wait_until_gone(*_pids(self.processes))
            open_ = bool(left and self._ask(WHO_LIVES, pids=[process.pid for process in left]))
        if left and error:
            error.add_note(
                f"The thread of {_names([process.number for process in left])} could not be "
                "stopped: it is left behind as a daemon thread, and its database session "
                + ("may still be open." if open_ else "is closed.")
            )

    def _alive(self) -> list[Process]:
        return [process for process in self.processes if process.thread.is_alive()]

    def _terminate(self, processes: list[Process]) -> None:
        with contextlib.suppress(Error):
            if processes:
                self._ask(TERMINATE, pids=_pids(processes))


class Process:
    """One party of a race: a thread with a database session, which stops before each step."""

    def __init__(
        self,
        number: int,
        function: Callable[[], object],
        caller: BaseDatabaseWrapper,
        stops: SimpleQueue[tuple[Process, str]],
        wait_until_gone: Callable[[int], None],
        split_autocommit: bool,
    ) -> None:
        self.number, self.function, self.split_autocommit = number, function, split_autocommit
        self.state = IDLE
        self.step: Any = None  # the step it stands at, or took last
        self.sent: Any = None  # the step it has not come back from
        self.blockers: tuple[int, ...] = ()  # the processes it waits for
        self.since = 0.0  # when it began to wait, by time.monotonic()
        self.foreign_blockers: list[int] = []  # the sessions it waits for that are none of ours
        self.asked = 0  # how often PostgreSQL was asked whether the step under way waits
        self.code = self.detail = ""  # of the error its last step ended in
        self.timed_out = False  # which came of a clock: not of NOWAIT, not of pg_cancel_backend
        self.outcome = Outcome()
        self.failure: BaseException | None = None
        self.pid = 0
        self.serializable = False  # by default
        self.prompt = False  # whether its deadlocks are found at once
        self.opening = self.sending = self.abandoned = self.leaving = False
        self.locks = False  # whether it has sent what may take advisory locks of its session
        self.apart = False  # whether the COMMIT of the statement it stands at is another step
        self.thread = threading.Thread(target=self._live, name=f"process {number}", daemon=True)
        self._go: SimpleQueue[None] = SimpleQueue()
        self._stops, self._wait_until_gone = stops, wait_until_gone
        options = {k: v for k, v in caller.settings_dict["OPTIONS"].items() if k != "pool"}
        kept = {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": False, "OPTIONS": options}
        backend: Any = type("SteppingWrapper", (_Connection, type(caller)), {"owner": self})
        self._new_wrapper: Callable[[], Any] = lambda: backend(
            caller.settings_dict | kept, caller.alias
        )
        self._alias = caller.alias
        self._db: Any = None  # Django's connection, a new one for each schedule ...
        self._session: Any = None  # ... round the driver's, which is kept
        self.copies: dict[int, Any] = {}  # the driver's connections of its copies, by their pids
        self._first_state: dict[str, Any] = {}
        self._new_session = ""

    def start(self) -> None:
        """Start its thread, which connects and then waits for the first schedule."""
        self.state = AWAY
        self.thread.start()

    def go(self) -> None:
        """Let it go on to its next stop."""
        self.state, self.blockers, self.foreign_blockers, self.asked = AWAY, (), [], 0
        self._go.put(None)

    def abandon(self) -> None:
        """End it at its next stop, or now if it stands at one."""
        self.abandoned = True
        self._go.put(None)

    def interrupt(self) -> None:
        """End Python that never comes to a stop; what hangs inside C is out of reach."""
        if self.thread.is_alive() and not self.leaving:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self.thread.ident or 0), ctypes.py_object(_Abandoned)
            )

    def place(self) -> Place:
        """Where it stands, in a form that is the same whenever it stands there again."""
        return (DONE,) if self.state == DONE else (self.step.kind, self.step.sql, *self.blockers)

    def is_in_transaction(self) -> bool:
        """Whether what it does next takes effect only with a later COMMIT."""
        session = self._db.connection
        if session is None or session.closed:
            return False
        return not session.autocommit or session.info.transaction_status in IN_TRANSACTION

    def is_serializable(self) -> bool:
        """Whether its transactions are SERIALIZABLE, unless it says so with SET TRANSACTION."""
        # 3 is psycopg2's, psycopg has names.
        level = getattr(self._db.connection, "isolation_level", None)
        return self.serializable or getattr(level, "name", level) in ("SERIALIZABLE", 3)

    def describe(self) -> str:
        """Say what it is doing, for an error message."""
        who = f"Process {self.number}"
        if self.state == DONE:
            return f"{who} has ended."
        if self.opening:
            return f"{who} is connecting to the database."
        if self.state == AT_STEP or self.sending:
            where = f"{self.step.filename}:{self.step.lineno} ({self.step.function})"
            what = "is about to send" if self.state == AT_STEP else "has sent"
            for_whom = ""
            if self.blockers:
                for_whom = f" and waits for {_names(self.blockers)}"
            elif self.foreign_blockers:
                pids = ", ".join(map(str, self.foreign_blockers))
                for_whom = f" and waits for session {pids}, which belongs to no process"
            return f"{who} {what} {self.step.sql!r}{for_whom}, at {where}."
        frame = _their_frame(sys._current_frames().get(self.thread.ident or 0))
        if frame is None:
            return f"{who} is in Python."
        filename, lineno = frame.f_code.co_filename, frame.f_lineno
        line = linecache.getline(filename, lineno).strip()
        return f"{who} is in Python at {filename}:{lineno} ({frame.f_code.co_name}): {line}"

    # From here on, everything runs in the thread of the process.

    @contextlib.contextmanager
    def stepping(self, kind: str, sql: str, params: Any = None) -> Iterator[SimpleNamespace]:
        """Stop, take one step when the scheduler says so, and note what comes of it."""
        if "SAVEPOINT" in sql:  # Django names savepoints after the thread, which differs
            sql = sql.replace(str(threading.get_ident()), str(self.number))
        self.locks = self.locks or "advisory_lock" in sql.lower()
        frame = _their_frame(sys._getframe(2))
        code = frame.f_code if frame else None
        step = self.step = SimpleNamespace(
            process=self.number,
            kind=kind,
            sql=sql,
            params=params,
            filename=code.co_filename if code else "",
            lineno=frame.f_lineno if frame else 0,
            function=code.co_qualname if code else "",
        )
        self._stop(AT_STEP)
        self.code, self.detail, self.timed_out = "", "", False
        self.sending = True
        try:
            yield step
        except Exception as error:
            cause: Any = error.__cause__ or error
            step.error = type(cause).__name__
            step.message = next(iter(str(cause).splitlines()), "")
            self.code = _code(error)
            diag = getattr(cause, "diag", None)
            self.detail = getattr(diag, "message_detail", None) or ""
            self.timed_out = (
                getattr(diag, "source_function", None) == "ProcessInterrupts"
                and "user request" not in step.message
            )
            raise
        finally:
            self.sending = False
            if self.blockers and not self.abandoned:
                self._stop(BACK)

    def opened(self, session: Any) -> None:
        """Take over a session that Django has just opened."""
        self._session, self.pid = session, session.info.backend_pid
        names = ("autocommit", "isolation_level", "readonly", "read_only", "deferrable")
        self._first_state = {n: getattr(session, n) for n in names if hasattr(session, n)}
        with session.cursor() as cursor:
            # A stop may take longer than what is allowed to sit idle in a transaction.
            cursor.execute(
                f"SET application_name = 'interleave process {self.number}';"
                "SET synchronous_commit = off; SET idle_in_transaction_session_timeout = 0"
            )
            cursor.execute(NO_TIMEOUTS)
            self.prompt = True
            try:
                cursor.execute("SET deadlock_timeout = '1ms'")
            except self._db.Database.Error:
                self.prompt = False
            cursor.execute("SHOW default_transaction_isolation")
            self.serializable = cursor.fetchone()[0] == "serializable"
            cursor.execute(NEW_SESSION)
            self._new_session = cursor.fetchone()[0]

    @contextlib.contextmanager
    def uncommitted(self) -> Iterator[None]:
        """Begin a transaction for one statement; end it when the statement fails."""
        self.control("BEGIN")
        try:
            yield
        except BaseException:
            with contextlib.suppress(Error):
                self.control("ROLLBACK")
            raise

    def control(self, sql: str) -> None:
        """Begin or end a transaction past Django, which believes that there is none."""
        with self._db.wrap_database_errors, self._db.connection.cursor() as cursor:
            cursor.execute(sql)

    def closing(self, close: Callable[[], None]) -> None:
        """Close the session as a step, which is over when PostgreSQL has let its locks go."""
        with self.stepping("CLOSE", "CLOSE"):
            close()
            self._wait_until_gone(self.pid)

    def _stop(self, state: str) -> None:
        if not self.abandoned:
            self._stops.put((self, state))
            self._go.get()
        if self.abandoned:
            self._leave()  # it may swallow the exception, but must not keep its locks
            raise _Abandoned

    def _leave(self) -> None:
        for each in (self._session, *_sessions(), *self.copies.values()):
            with contextlib.suppress(Exception):
                each.close()

    def _live(self) -> None:
        with contextlib.suppress(_Abandoned):  # an interruption that came as it was leaving
            try:
                self._live_on()
            finally:
                self.leaving = True
                self._leave()

    def _live_on(self) -> None:
        try:
            self._open()
            while True:
                self._stop(DONE)
                self._open()
                self._run()
                self._end_session()
        except _Abandoned:
            pass
        except BaseException as error:
            self.failure = error
            self._stops.put((self, FAILED))

    def _open(self) -> None:
        """Give the function a Django connection that knows nothing of earlier schedules."""
        before, self._db = self._db, self._new_wrapper()
        self._db.process = self
        connections[self._alias] = self._db
        if self._session is not None and select.select([self._session], [], [], 0)[0]:
            self._session.close()  # it has something to say though nobody asked: it was killed
            self._session = None
        if self._session is None:
            self._db.ensure_connection()
        else:
            self._db.connection = self._session
            self._db.autocommit = before.autocommit
            self._db.isolation_level = before.isolation_level

    def _run(self) -> None:
        try:
            returned = self.function()
            if inspect.iscoroutine(returned):
                returned.close()
                raise TypeError("an async function was called and not run: use async_to_sync")
            self.outcome = Outcome(returned=returned)
        except _Abandoned:
            raise
        except BaseException as error:
            self.outcome = Outcome(raised=error)
            seen: set[int] = set()
            each: BaseException | None = error
            while each and id(each) not in seen:  # what the frames hold is not for the next one
                seen.add(id(each))
                traceback.clear_frames(each.__traceback__)
                each = each.__cause__ or each.__context__

    def _end_session(self) -> None:
        """Put the session back to its first state, as if the process had ended."""
        for each in (*_sessions(), *self.copies.values()):
            if each is not self._db.connection:
                each.close()
        if self.copies:
            self._wait_until_gone(*self.copies)
            self.copies.clear()
        session, self._session = self._db.connection, None
        if session is None or session.closed:
            return
        try:
            if session.info.transaction_status in IN_TRANSACTION:
                with self.stepping("ROLLBACK", "ROLLBACK"):
                    session.rollback()
            for name, value in self._first_state.items():
                if getattr(session, name) != value:
                    setattr(session, name, value)
            self._db.autocommit = session.autocommit
            with session.cursor() as cursor:
                # Whoever waits for its locks goes on, so that its end is a step.
                ends = self.stepping("CLOSE", "CLOSE") if self._holds_locks(cursor) else None
                with ends or contextlib.nullcontext():
                    cursor.execute(self._new_session)
            self._session = session
        except self._db.Database.Error:
            session.close()

    def _holds_locks(self, cursor: Any) -> bool:
        """Whether the session has kept advisory locks; asked only if it may have taken some."""
        if not self.locks:
            return False
        self.locks = False
        cursor.execute(HOLDS_LOCKS)
        return bool(cursor.fetchone())


class _Connection(BaseDatabaseWrapper):
    """Mixed into Django's backend: takes commits, rollbacks and closing step by step."""

    owner: Process
    # None for a copy(), which is a connection of its own: it works, unobserved.
    process: Process | None = None

    def connect(self) -> None:
        if self.process is None:
            super().connect()
            if threading.current_thread() is self.owner.thread:  # else it is a thread's of theirs
                self.owner.copies[self.connection.info.backend_pid] = self.connection
            return
        if self.process.abandoned:
            raise _Abandoned  # a new session would outlive it
        self.process.opening = True
        try:
            super().connect()
            self.process.opened(self.connection)
        finally:
            self.process.opening = False

    def make_cursor(self, cursor: Any) -> CursorWrapper:
        return _Cursor(cursor, self) if self.process else super().make_cursor(cursor)

    def make_debug_cursor(self, cursor: Any) -> CursorDebugWrapper:
        return _DebugCursor(cursor, self) if self.process else super().make_debug_cursor(cursor)

    def _stepping(self, kind: str) -> contextlib.AbstractContextManager[object]:
        if self.process is None or self.connection is None or self.process.opening:
            return contextlib.nullcontext()
        if self.connection.info.transaction_status not in IN_TRANSACTION:
            return contextlib.nullcontext()  # there is nothing to end, and nothing is sent
        return self.process.stepping(kind, kind)

    def _commit(self) -> None:
        with self._stepping("COMMIT"):
            super()._commit()  # type: ignore[misc]

    def _rollback(self) -> None:
        with self._stepping("ROLLBACK"):
            super()._rollback()  # type: ignore[misc]

    def _close(self) -> None:
        process = self.process
        if process is None or self.connection is None or self.connection.closed or process.opening:
            super()._close()  # type: ignore[misc]
        else:
            process.closing(super()._close)  # type: ignore[misc]


class _SteppingCursor(CursorWrapper):
    """Mixed into Django's cursors: takes statements step by step and keeps what they return."""

    _last: SimpleNamespace | None = None

    def _execute(self, sql: Any, params: Any, *ignored: Any) -> Any:
        return self._send(super()._execute, sql, params, once=True)  # type: ignore[misc]

    def _executemany(self, sql: Any, param_list: Any, *ignored: Any) -> Any:
        return self._send(super()._executemany, sql, param_list)  # type: ignore[misc]

    def callproc(self, procname: Any, params: Any = None, kparams: Any = None) -> Any:
        with self.db.process.stepping("CALL", f"CALL {procname}", params) as self._last:
            return super().callproc(procname, params, kparams)

    def _send(
        self, send: Callable[[Any, Any], Any], sql: Any, params: Any, *, once: bool = False
    ) -> Any:
        text = sql if isinstance(sql, str) else sql.as_string(self.cursor)
        kind = _kind(text)
        if self.db.process.opening or _ONLY_BEGIN.fullmatch(text):
            self.db.process.serializable |= "SERIALIZABLE" in text.upper()
            return send(sql, params)
        self.db.validate_no_broken_transaction()  # Django sends nothing then
        process = self.db.process
        connected = self.db.connection is not None
        writes = once and connected and process.split_autocommit and _writes(text)
        apart = process.apart = writes and not process.is_in_transaction()
        with process.stepping(kind, text, params) as self._last:
            with process.uncommitted() if apart else contextlib.nullcontext():
                result = send(sql, params)
            self._last.rowcount = self.cursor.rowcount
        if apart:
            with process.stepping("COMMIT", "COMMIT"):
                process.control("COMMIT")
        return result

    def _fetch(self, method: str, *args: Any) -> list[Any]:
        fetch = CursorWrapper.__getattr__(self, method)
        if name := getattr(self.cursor, "name", None):  # a server-side cursor asks PostgreSQL
            name = re.sub(r"\d{4,}", str(self.db.process.number), name)
            with self.db.process.stepping("FETCH", f"FETCH FROM {name}") as self._last:
                rows = fetch(*args)
                self._last.rowcount = self.cursor.rowcount
        else:
            rows = fetch(*args)
        rows = [] if rows is None else [rows] if method == "fetchone" else rows
        self._keep(rows)
        return rows

    def _keep(self, rows: list[Any]) -> None:
        step = self._last
        if step is None or not rows:
            return
        kept = getattr(step, "rows", ())
        if not kept:
            step.columns = tuple(column[0] for column in self.cursor.description)
        step.rows = kept + tuple(map(tuple, rows[: ROWS_KEPT - len(kept)]))

    def fetchone(self) -> Any:
        return next(iter(self._fetch("fetchone")), None)

    def fetchmany(self, *args: Any) -> Any:
        return self._fetch("fetchmany", *args)

    def fetchall(self) -> Any:
        return self._fetch("fetchall")

    def __iter__(self) -> Iterator[Any]:
        while rows := self.fetchmany(getattr(self.cursor, "itersize", 100)):
            yield from rows

    def __getattr__(self, attr: str) -> Any:
        attribute = super().__getattr__(attr)
        if attr.startswith("copy"):
            return functools.partial(self._copy, attribute)
        return attribute

    def _copy(self, copy: Callable[..., Any], sql: Any, *args: Any, **kwargs: Any) -> Any:
        with self.db.process.stepping("COPY", str(sql)) as self._last:
            return copy(sql, *args, **kwargs)


class _Cursor(_SteppingCursor):
    pass


class _DebugCursor(_SteppingCursor, CursorDebugWrapper):
    pass


WHO_WAITS = """
    SELECT pid, extract(epoch FROM clock_timestamp() - waitstart)::float8, pg_blocking_pids(pid)
    FROM pg_locks WHERE NOT granted AND pid = ANY(%(pids)s)
    UNION ALL
    SELECT pid, NULL, pg_safe_snapshot_blocking_pids(pid) FROM unnest(%(pids)s::int[]) AS pid
"""

IDLE_SINCE = "SELECT pid, state_change FROM pg_stat_activity WHERE pid = ANY(%(pids)s)"
HOLDS_LOCKS = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
WHO_LIVES = "SELECT pid FROM pg_stat_activity WHERE pid = ANY(%(pids)s)"
TERMINATE = "SELECT pg_terminate_backend(pid) FROM unnest(%(pids)s::int[]) AS pid WHERE pid > 0"
SET = "SELECT set_config(%(name)s, %(value)s, false)"

NO_TIMEOUTS = """
    SELECT set_config(name, '0', false) FROM pg_settings
    WHERE name IN ('transaction_timeout', 'idle_session_timeout')
"""  # which not every version of PostgreSQL has

# Makes the script that runs after each schedule: all back to how the session is now.
NEW_SESSION = """
    SELECT 'RESET SESSION AUTHORIZATION; RESET ALL; SELECT pg_advisory_unlock_all(); CLOSE ALL; '
        || 'UNLISTEN *; DEALLOCATE ALL; DISCARD TEMP; DISCARD SEQUENCES; '
        || format('SELECT set_config(''role'', %L, false); ', current_setting('role'))
        || coalesce(string_agg(format('SELECT set_config(%L, %L, false)', name, setting), '; '), '')
    FROM pg_settings WHERE source = 'session' AND name NOT IN
        ('transaction_isolation', 'transaction_read_only', 'transaction_deferrable')
"""


def _refuse(
    processes: Sequence[Callable[[], object]], using: str, max_steps: int, step_timeout: float
) -> None:
    if not 1 <= len(processes) <= MOST_PROCESSES or not all(map(callable, processes)):
        raise CannotExplore(f"Give 1 to {MOST_PROCESSES} processes, each a callable.")
    if max_steps < 1 or step_timeout <= 0:
        raise CannotExplore("max_steps and step_timeout must be greater than zero.")
    connection = connections[using]
    if connection.vendor != "postgresql":
        raise CannotExplore(
            f"The database {using!r} is {connection.vendor}; only PostgreSQL can be explored."
        )
    _refuse_transaction(connection, "The exploration was started inside a transaction of")


def _refuse_transaction(connection: BaseDatabaseWrapper, what: str) -> None:
    if connection.in_atomic_block or not connection.get_autocommit():
        raise CannotExplore(
            f"{what} the database {connection.alias!r}, whose rows the processes would not see. "
            "Explore outside atomic(): in a TransactionTestCase instead of a TestCase, or under "
            "@pytest.mark.django_db(transaction=True)."
        )


def _code(error: BaseException) -> str:
    """Return the SQLSTATE of an error that came from PostgreSQL, or ""."""
    cause = error.__cause__ or error
    return getattr(cause, "pgcode", None) or getattr(cause, "sqlstate", None) or ""


def _pids(processes: Sequence[Process]) -> list[int]:
    """The sessions of some processes, those of copies of their connections too."""
    return [pid for process in processes for pid in (process.pid, *process.copies)]


def _sessions() -> list[Any]:
    """The driver's connections that this thread has opened through Django."""
    wrappers = connections.all(initialized_only=True)
    return [wrapper.connection for wrapper in wrappers if wrapper.connection is not None]


def _circular(blocked: dict[Process, tuple[int, ...]]) -> bool:
    """Whether some processes wait for each other."""
    waits = {process.number: set(numbers) for process, numbers in blocked.items()}
    for _ in waits:  # wait for whoever those wait for whom I wait for
        for numbers in waits.values():
            numbers.update(*(waits.get(number, ()) for number in list(numbers)))
    return any(number in numbers for number, numbers in waits.items())


_COMMENTS = r"(?:/\*.*?\*/|--[^\n]*\n|[\s(;])*"
_ONLY_BEGIN = re.compile(r"\s*(BEGIN|START\s+TRANSACTION)\b[^;]*;?\s*", re.IGNORECASE)
_STATEMENT = re.compile(_COMMENTS + r"(rollback\s+to|\w+)", re.IGNORECASE | re.DOTALL)
_SEVERAL = re.compile(r";\s*\S")
_WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE|MERGE)\b", re.IGNORECASE)
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$""", re.DOTALL)
_SET_ISOLATION = re.compile(r"SET\s+TRANSACTION\s+ISOLATION\s+LEVEL[\s\w]+;?\s*", re.IGNORECASE)
_MORE_THAN_READS = re.compile(r"[(]|\bFOR\b|\bINTO\b", re.IGNORECASE)


def _writes(sql: str) -> bool:
    """Whether it is one statement that changes rows."""
    bare = _QUOTED.sub(" ", sql)
    kind = _kind(sql)
    writes = _WRITES.fullmatch(kind) or (kind == "WITH" and _WRITES.search(bare))
    return bool(writes) and not _SEVERAL.search(bare)


def _savepoint(sql: str) -> str:
    """Return the name in SAVEPOINT name, RELEASE SAVEPOINT name, ROLLBACK TO SAVEPOINT name."""
    return sql.rstrip("; \n").split()[-1].strip('"').lower()


@functools.lru_cache(maxsize=1024)
def _kind(sql: str) -> str:
    match = _STATEMENT.match(sql)
    return " ".join(match[1].upper().split()) if match else ""


_DJANGO, _STDLIB = (
    str(Path(each).parent) + os.sep for each in (django.__file__, contextlib.__file__)
)


@functools.lru_cache(maxsize=4096)
def _is_theirs(filename: str) -> bool:
    """Whether a file is neither Django's, nor this one, nor the standard library's."""
    if filename == __file__ or filename.startswith((_DJANGO, "<frozen")):
        return False
    return not filename.startswith(_STDLIB) or "-packages" in filename


def _their_frame(frame: FrameType | None) -> FrameType | None:
    while frame and not _is_theirs(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _names(numbers: Sequence[int]) -> str:
    who = "process " if len(numbers) == 1 else "processes "
    return who + " and ".join(map(str, numbers))


def _told(place: Place) -> str:
    if place == (DONE,):
        return "had ended"
    _, sql, *blockers = place
    return f"was at {sql!r}" + (f", waiting for {_names(blockers)}," if blockers else "")


def _literal(value: object) -> str:
    """Write a parameter as a reader of SQL expects it."""
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).lower()
    for number in (int, float):  # psycopg's Int4 is an int, and so is one of IntegerChoices
        if isinstance(value, number):
            return repr(number(value))
    return repr(str(value))


def _what_and_where(error: BaseException) -> str:
    """Write an exception in a line, with the line of theirs that raised it; SQL has its step."""
    text = next(iter(f"{type(error).__name__}: {error}".splitlines()))
    lines = [(tb.f_code.co_filename, line) for tb, line in traceback.walk_tb(error.__traceback__)]
    theirs = [(filename, line) for filename, line in lines if _is_theirs(filename)]
    if not theirs or isinstance(error, Error):
        return text
    filename, line = theirs[-1]
    return f"{text} ({Path(filename).name}:{line})"


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent="  ") or [""]


class _ProgressBar:
    """A line on stderr, for a search that takes longer than a second."""

    def __init__(self, wanted: bool) -> None:
        self.wanted, self.next, self.drawn = wanted, 1.0, False

    def show(self, share: float, schedules: int, violations: int, seconds: float) -> None:
        if self.wanted and seconds >= self.next:
            self.next, self.drawn = seconds + 0.1, True
            bar = ("#" * round(30 * share)).ljust(30, ".")
            sys.stderr.write(
                f"\r[{bar}] {share:4.0%}  {schedules} schedules, {violations} violating "
            )
            sys.stderr.flush()

    def close(self) -> None:
        if self.drawn:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
