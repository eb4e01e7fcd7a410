"""The functions that people call: explore all schedules, or run one of them."""

import contextlib
import functools
import time
from collections.abc import Callable, Sequence

from pginterleave import likely_causes, results
from pginterleave import progress as progress_module
from pginterleave.control import Database
from pginterleave.explorer_errors import CannotExplore
from pginterleave.pace import measured_timeout
from pginterleave.progress import Progress
from pginterleave.results import AT_FIRST, Exploration, Observe, Schedule
from pginterleave.running import Run
from pginterleave.sampling import Sampler
from pginterleave.scheduler import Expected, Invariant, Scheduler, Setup
from pginterleave.search import Search
from pginterleave.shrinking import shrink
from pginterleave.symmetry import Check, find_alike


def explore(
    processes: Sequence[Callable[[], object]],
    *,
    invariant: Invariant,
    setup: Setup = lambda: None,
    using: str | Database = "default",
    isolation_level: str = "",
    observe: Observe | None = None,
    each: Callable[[Schedule], object] | None = None,
    reduce: bool = False,
    symmetric: bool = False,
    preemption_bound: int | None = None,
    sample: int | None = None,
    seed: int | None = None,
    expected: Expected = (),
    split_autocommit: bool = True,
    count_all: bool = True,
    max_schedules: int = 10_000,
    max_seconds: float | None = None,
    max_steps: int = 200,
    step_timeout: float | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> Exploration:
    """Run every schedule of the processes and return which of them violate the invariant.

    Args:
        processes: one to nine callables without arguments. What they return or raise is their
            outcome. They have to do the same whenever the same schedule is run.
        invariant: runs after each schedule, on the caller's connection, with the list of
            outcomes. Returns what does not hold, or None or "" if everything does; a failing
            assert in it is a violation too.
        setup: puts the database into its first state; runs before each schedule, on the
            caller's connection, in autocommit mode. Without it, nothing is put back.
        expected: the class of an exception, or several in a tuple, that a process may raise. Any
            other that it raises is a violation, and the invariant is not asked.
        using: the alias of the database in Django's settings, or an adapter, such as
            PsycopgDatabase.
        isolation_level: of the processes' transactions, such as "repeatable read"; by default
            what the settings say.
        observe: see `run_schedule`; it makes an exploration slower.
        each: called with every schedule after it ran, violating or not. With it, `reduce` leaves
            out orders of reads only, and runs every order of writes.
        reduce: of the schedules that differ only in the order of independent steps, run one and
            count the others. Independent are savepoints, setting the isolation level, plain
            SELECTs beside each other or beside what is written and not committed, unless
            transactions are SERIALIZABLE, and in READ COMMITTED also what is about other tables
            or about other rows by a unique column. What a step does is taken from its SQL, from
            the catalogue and from its result; what is not known to be independent keeps its
            place. The processes must share nothing in Python.
        symmetric: of the schedules that differ only in an exchange of processes that are the same,
            or are equivalent after it, run one and count the others. Processes are the same if
            they are one function, or functools.partial of one function with the same numbers and
            texts; neither they nor setup nor the invariant may tell them apart. Some schedules are
            run exchanged, too, to check it.
        preemption_bound: run only the schedules with at most so many preemptions, which are steps
            of another process while the one that took the last step could go on. It proves
            nothing of the others.
        sample: run so many schedules, chosen at random, instead of all. It proves nothing.
        seed: of the sample; with the same one, the same schedules run. By default a random one.
        split_autocommit: whether the COMMIT of a statement that writes or locks, outside a
            transaction, is a step of its own, as others can come between. Without it there are
            fewer schedules, and what breaks in real threads may break in none of them.
        count_all: whether to go on after a violation, to count all of them. Otherwise the search
            stops at the first one, and makes it simpler; after an exception that is not expected,
            it looks a little further for a schedule in which the invariant does not hold.
        max_schedules: the search is truncated after so many schedules have run, which are those
            with the fewest preemptions.
        max_seconds: the search is truncated after the schedule that ends later than this. By
            default time is no limit, as a slow machine would prove less.
        max_steps: a longer schedule is an error, as a loop may never end.
        step_timeout: seconds for one step, and for the Python up to the next one. By default 10,
            and more on a machine that is slow to answer.
        progress: called after each schedule with how far the search is. By default tqdm, if it
            is installed, draws a bar when stderr is a terminal and the search takes more than a
            second.

    Raises:
        CannotExplore: inside a transaction, without PostgreSQL, with a limit out of range.
        StepTimeout: a process hangs; the message says where.
        NotDeterministic: a process took another way than the last time, or a schedule that was
            counted as equivalent leads to something else.
        InterleaveError: see `max_steps`; and when a process cannot connect.
        Exception: whatever `setup`, `invariant` or `observe` raises, with a note saying when,
            and whatever `each` or `progress` raises.
    """
    if max_schedules < 1 or (max_seconds is not None and max_seconds <= 0):
        raise CannotExplore("max_schedules and max_seconds must be greater than zero.")
    database = _database(using, isolation_level)
    race = (tuple(processes), setup, invariant, expected, database, split_autocommit)
    seconds = measured_timeout(database) if step_timeout is None else step_timeout
    new_scheduler = functools.partial(Scheduler, *race, max_steps, seconds)
    if preemption_bound is not None and preemption_bound < 0:
        raise CannotExplore("preemption_bound must not be negative.")
    if sample is not None and sample < 1:
        raise CannotExplore("sample must be greater than zero.")
    if sample is not None and (reduce or symmetric or preemption_bound is not None):
        raise CannotExplore("A sample goes with neither reduce nor symmetric nor preemption_bound.")
    alike = find_alike(processes) if symmetric else []
    chooser: Search | Sampler = Search(
        len(processes), reduce=reduce, bound=preemption_bound, alike=alike
    )
    if sample is not None:
        chooser = Sampler(len(processes), schedules=sample, seed=seed)
    check = Check(alike)

    def keep(schedule: Schedule) -> None:
        check.note(schedule)
        if each:
            each(schedule)

    began = time.monotonic()
    shown = contextlib.nullcontext(progress) if progress else progress_module.bar()
    with likely_causes.named(), new_scheduler() as scheduler, shown as show:
        catalogue = scheduler.control.catalogue
        scheduler.reduce = catalogue.reduced = reduce
        scheduler.writes = each is None
        run = Run(scheduler, chooser, observe, keep)
        limit = run.all(max_schedules, max_seconds, show, count_all=count_all)
        truncated = limit or chooser.left_out()
        check.run(functools.partial(scheduler.run_order, observe=None))
        counterexample = run.counterexample()
        other = run.of_other_kind(counterexample)
        if counterexample and (sample is not None or limit == AT_FIRST):
            counterexample = shrink(counterexample, run.near)
    schedules, violating = chooser.counted()
    found = Exploration(
        orders=tuple(run.orders),
        violations=tuple(run.violations),
        counterexample=counterexample,
        other=other,
        schedules=schedules,
        violating=violating,
        raising=chooser.raising() if any(each.raises for each in run.violations) else 0,
        truncated=truncated,
        covered=chooser.covered() if truncated and limit != AT_FIRST else "",
        left=run.left() if limit and limit != AT_FIRST else 0,
        seconds=time.monotonic() - began,
        limits=tuple(catalogue.limits),
        unobserved=tuple(catalogue.unobserved),
        unseen_commits=tuple(catalogue.unseen_commits),
        isolation_level=isolation_level,
        unexplored=tuple(catalogue.unexplored),
        _run=functools.partial(_run, new_scheduler),
    )
    if each:  # which has seen every schedule
        results.mark_read(found)
    return found


def run_schedule(
    order: str,
    processes: Sequence[Callable[[], object]],
    *,
    invariant: Invariant,
    setup: Setup = lambda: None,
    using: str | Database = "default",
    isolation_level: str = "",
    observe: Observe | None = None,
    expected: Expected = (),
    split_autocommit: bool = True,
    max_steps: int = 200,
    step_timeout: float | None = None,
) -> Schedule:
    """Run one schedule from its written form, step for step.

    Args:
        order: the process of each step, as in `1212`; all steps of all processes. A letter behind a
            step says who is the victim of the deadlock that it closes, as in `1212a21`.
        observe: called after each step, on the caller's connection, which sees what is
            committed; what it returns is the step's `observed`.

    The other arguments, and what is raised, are as for `explore`.

    Raises:
        ImpossibleSchedule: a process cannot take its step because it waits or has ended, or
            the schedule ends before the processes do.
    """
    database = _database(using, isolation_level)
    race = (tuple(processes), setup, invariant, expected, database, split_autocommit)
    seconds = measured_timeout(database) if step_timeout is None else step_timeout
    new_scheduler = functools.partial(Scheduler, *race, max_steps, seconds)
    return _run(new_scheduler, order, observe)


def _run(new_scheduler: Callable[[], Scheduler], order: str, observe: Observe | None) -> Schedule:
    with new_scheduler() as scheduler:
        return scheduler.run_order(order, observe)


def _database(using: str | Database, isolation_level: str) -> Database:
    if not isinstance(using, str):
        if isolation_level:
            raise CannotExplore("isolation_level is for Django: let the connections set theirs.")
        return using
    # Late: pytest loads this package as a plugin, in projects without Django too.
    from pginterleave.django import DjangoDatabase

    return DjangoDatabase(using, isolation_level)
