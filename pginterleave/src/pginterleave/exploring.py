"""The functions that people call: explore all schedules, or run one of them."""

import contextlib
import functools
import time
from collections.abc import Callable, Sequence

from pginterleave import progress as progress_module
from pginterleave.control import Database
from pginterleave.explorer_errors import CannotExplore
from pginterleave.progress import Progress
from pginterleave.results import Exploration, Observe, Schedule
from pginterleave.scheduler import Expected, Invariant, Scheduler, Setup
from pginterleave.search import Search


def explore(
    processes: Sequence[Callable[[], object]],
    *,
    setup: Setup,
    invariant: Invariant,
    using: str = "default",
    observe: Observe | None = None,
    each: Callable[[Schedule], object] = lambda _: None,
    reduce: bool = False,
    expected: Expected = (),
    split_autocommit: bool = False,
    max_schedules: int = 10_000,
    max_seconds: float = 60.0,
    max_steps: int = 200,
    step_timeout: float = 10.0,
    progress: Callable[[Progress], object] | None = None,
) -> Exploration:
    """Run every schedule of the processes and return which of them violate the invariant.

    Args:
        processes: one to nine callables without arguments. What they return or raise is their
            outcome. They have to do the same whenever the same schedule is run.
        setup: puts the database into its first state; runs before each schedule, on the
            caller's connection, in autocommit mode.
        invariant: runs after each schedule, on the caller's connection, with the list of
            outcomes. Returns what does not hold, or None or "" if everything does; a failing
            assert in it is a violation too.
        expected: the class of an exception, or several in a tuple, that a process may raise. Any
            other that it raises is a violation, and the invariant is not asked.
        using: the alias of the database.
        observe: see `run_schedule`; it makes an exploration slower.
        each: called with every schedule after it ran, violating or not.
        reduce: of the schedules that differ only in the order of independent steps, run one and
            count the others. Independent are savepoints, setting the isolation level, and plain
            SELECTs beside each other or beside what is written and not committed, unless
            transactions are SERIALIZABLE. What a step does is taken from its SQL and from its
            result: so there must be no view, trigger, rule, sequence or system catalogue through
            which a statement reads or does more than it says, and the processes must share
            nothing in Python.
        split_autocommit: whether the COMMIT of an INSERT, UPDATE, DELETE or MERGE outside a
            transaction is a step of its own, so that others can come between.
        max_schedules: the search is truncated after so many schedules have run.
        max_seconds: the search is truncated after the schedule that ends later than this.
        max_steps: a longer schedule is an error, as a loop may never end.
        step_timeout: seconds for one step, and for the Python up to the next one.
        progress: called after each schedule with how far the search is. By default tqdm, if it
            is installed, draws a bar when stderr is a terminal and the search takes more than a
            second.

    Raises:
        CannotExplore: inside a transaction, without PostgreSQL, with a limit out of range.
        StepTimeout: a process hangs; the message says where.
        NotDeterministic: a process took another way than the last time.
        InterleaveError: see `max_steps`; and when a process cannot connect.
        Exception: whatever `setup`, `invariant` or `observe` raises, with a note saying when,
            and whatever `each` or `progress` raises.
    """
    if max_schedules < 1 or max_seconds <= 0:
        raise CannotExplore("max_schedules and max_seconds must be greater than zero.")
    race = (tuple(processes), setup, invariant, expected, _database(using), split_autocommit)
    new_scheduler = functools.partial(Scheduler, *race, max_steps, step_timeout)
    search = Search(len(processes), reduce)
    orders: list[str] = []
    violations: list[Schedule] = []
    truncated = ""
    began = time.monotonic()
    shown = contextlib.nullcontext(progress) if progress else progress_module.bar()
    with new_scheduler() as scheduler, shown as show:
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
            seconds = time.monotonic() - began
            show(Progress(search.share(), len(orders), len(violations), seconds))
            if not search.advance():
                break
            if len(orders) >= max_schedules:
                truncated = f"max_schedules={max_schedules} reached"
            elif seconds >= max_seconds:
                truncated = f"max_seconds={max_seconds} passed after {len(orders)} schedules"
            if truncated:
                truncated += scheduler.monitor.slow_deadlock_hint()
                break
    schedules, violating = search.counted()
    return Exploration(
        orders=tuple(orders),
        violations=tuple(violations),
        schedules=schedules,
        violating=violating,
        truncated=truncated,
        seconds=time.monotonic() - began,
        _run=functools.partial(_run, new_scheduler),
    )


def run_schedule(
    order: str,
    processes: Sequence[Callable[[], object]],
    *,
    setup: Setup,
    invariant: Invariant,
    using: str = "default",
    observe: Observe | None = None,
    expected: Expected = (),
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
    race = (tuple(processes), setup, invariant, expected, _database(using), split_autocommit)
    new_scheduler = functools.partial(Scheduler, *race, max_steps, step_timeout)
    return _run(new_scheduler, order, observe)


def _run(new_scheduler: Callable[[], Scheduler], order: str, observe: Observe | None) -> Schedule:
    with new_scheduler() as scheduler:
        return scheduler.run_order(order, observe)


def _database(alias: str) -> Database:
    # Late: pytest loads this package as a plugin, in projects without Django too.
    from pginterleave.django import DjangoDatabase

    return DjangoDatabase(alias)
