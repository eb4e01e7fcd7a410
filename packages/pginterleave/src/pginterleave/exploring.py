"""The public functions: explore all schedules, or run one of them."""

import contextlib
import functools
import time
from collections.abc import Callable, Sequence

from pginterleave import explorer_errors, results
from pginterleave.explorer_errors import CannotExplore
from pginterleave.judging.judge import Expected, Function, Invariant
from pginterleave.judging.serial_orders import TryAgain
from pginterleave.processes.control import Database
from pginterleave.processes.scheduler import Setup
from pginterleave.race import Race, judge_of
from pginterleave.results import AT_FIRST, Exploration, Observe, Schedule
from pginterleave.searching.runs import Progress, Run, progress_bar, shrink
from pginterleave.searching.sampling import Sampler
from pginterleave.searching.search import Search
from pginterleave.searching.symmetry import Check, find_alike

IN_MEMORY = "{}, which the processes of a server do not share"


def explore(
    processes: Sequence[Function],
    *,
    invariant: Invariant | None = None,
    like: Sequence[Function] = (),
    try_again: TryAgain | None = None,
    setup: Setup = lambda: None,
    using: str | Database = "default",
    isolation_level: str = "",
    observe: Observe | None = None,
    each: Callable[[Schedule], object] | None = None,
    reduce: bool | None = None,
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
    """Run every schedule of the processes and return which of them are wrong.

    With an `invariant`, a schedule is wrong if that does not hold afterwards. Without one, every
    order in which the processes run one after the other is run first. A schedule is then wrong if
    it ends as none of these orders does: in the rows of the tables that were written, and in what
    each process returned or raised.

    Args:
        processes: one to nine callables without arguments. The outcome of a process is what the
            callable returns or raises. In the same schedule it has to do the same each time.
        invariant: runs after each schedule, on the caller's connection, with the list of
            outcomes. Returns what does not hold, or None or "" if everything holds. A failing
            assert in the invariant is a violation too.
        like: functions whose serial orders are compared with, instead of those of the processes:
            a reference, one for each process. An invariant may be given besides.
        try_again: without an invariant, whether an outcome says that the process found nothing
            free. It then runs once more alone before the comparison, as after an exception that
            is expected.
        setup: makes the first state of the database. It runs before each schedule, on the
            caller's connection, in autocommit mode. Without setup, nothing is restored.
        expected: the class of an exception that a process may raise, or a tuple of classes. Any
            other exception is a violation, and the invariant does not run. Without an invariant,
            other exceptions are a violation if the process raises them in no serial order.
        using: the alias of the database in Django's settings, or an adapter, such as
            PsycopgDatabase.
        isolation_level: of the processes' transactions, such as "repeatable read". By default the
            settings decide.
        observe: see `run_schedule`. It makes an exploration slower.
        each: called with every schedule after it has run. With `each`, `reduce` leaves out
            orders of reads only, and runs every order of writes.
        reduce: of the schedules that differ only in the order of independent steps, run one and
            count the others. By default it is on, unless `each` or `sample` is given. Savepoints
            are independent, and so is setting the isolation level. Unless transactions are
            SERIALIZABLE, a plain SELECT is independent of other SELECTs and of writes that are not
            committed. In READ COMMITTED, steps about different tables are independent, too, and
            steps about different rows by a unique column. The effect of a step is derived from its
            SQL, the catalogue and its result. A step that is not known to be independent keeps its
            place. The processes must share no memory: turn it off if they do.
        symmetric: of the schedules that differ only in an exchange of processes that are the same,
            or are equivalent after an exchange, run one and count the others. Processes are the
            same if they are one function, or functools.partial of one function with the same
            numbers and texts. The processes, setup and the invariant must not tell them apart. To
            check this, some schedules are also run exchanged.
        preemption_bound: run only the schedules with at most so many preemptions. A preemption is
            a step of another process while the process of the last step could go on. Schedules
            with more preemptions may violate the invariant.
        sample: run so many schedules, chosen at random, instead of all. A sample proves nothing.
        seed: of the sample. The same seed runs the same schedules. By default it is random.
        split_autocommit: whether the COMMIT of a statement that writes or locks, outside a
            transaction, is a separate step, as statements of others can come between. Without it
            there are fewer schedules, and code that breaks in real threads may break in none.
        count_all: whether to go on after a violation, to count all violations. Otherwise the search
            stops at the first one, and looks for a simpler schedule near it. After an exception
            that is not expected, it looks a little further for a schedule in which the invariant
            does not hold.
        max_schedules: the search is truncated after so many schedules. Those with the fewest
            preemptions run first.
        max_seconds: the search is truncated after the first schedule that ends later than this. By
            default there is no time limit, because a slow machine would prove less.
        max_steps: a longer schedule is an error, as a loop may never end.
        step_timeout: seconds for one step, and for the Python up to the next one. By default 10,
            and more if PostgreSQL is slow to answer.
        progress: called after each schedule with the progress of the search. By default tqdm, if
            it is installed, draws a bar when stderr is a terminal and the search takes more than
            a second.

    Raises:
        CannotExplore: inside a transaction, without PostgreSQL, with a limit out of range.
        StepTimeout: a process hangs; the message says where.
        NotDeterministic: in the same schedule, a process did not do the same as the last time. Or
            a schedule that was counted as equivalent has another result.
        InterleaveError: a schedule is longer than `max_steps`, or a process cannot connect.
        Exception: an exception of `setup`, `invariant` or `observe`, with a note saying when it was
            raised, or an exception of `each` or `progress`.
    """
    if max_schedules < 1 or (max_seconds is not None and max_seconds <= 0):
        raise CannotExplore("max_schedules and max_seconds must be greater than zero.")
    judged = judge_of(using, isolation_level, invariant, like, expected, try_again)
    race = Race(processes, setup, *judged, split_autocommit, max_steps, step_timeout)
    if preemption_bound is not None and preemption_bound < 0:
        raise CannotExplore("preemption_bound must not be negative.")
    if sample is not None and sample < 1:
        raise CannotExplore("sample must be greater than zero.")
    if reduce is None:  # `each` wants every schedule, and a sample has its own
        reduce = sample is None and each is None
    if sample is not None and (reduce or symmetric or preemption_bound is not None):
        raise CannotExplore("A sample goes with neither reduce nor symmetric nor preemption_bound.")
    alike = find_alike(processes) if symmetric else []

    def chooser_of_all() -> Search | Sampler:
        if sample is None:
            return Search(len(processes), reduce=reduce, bound=preemption_bound, alike=alike)
        return Sampler(len(processes), schedules=sample, seed=seed)

    check = Check(alike)

    def keep(schedule: Schedule) -> None:
        check.note(schedule)
        if each:
            each(schedule)

    began = time.monotonic()
    shown = contextlib.nullcontext(progress) if progress else progress_bar()
    with explorer_errors.noting_likely_cause(), race.scheduler() as scheduler, shown as show:
        catalogue = scheduler.control.catalogue
        scheduler.reduce = catalogue.reduced = reduce
        scheduler.writes = each is None
        serial = race.serial
        while True:
            run = Run(scheduler, chooser := chooser_of_all(), observe, keep)
            limit = run.all(max_schedules, max_seconds, show, count_all=count_all)
            suspects = serial and run.violations and not like
            if not (suspects and serial and serial.learn_again(scheduler)):
                break
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
        limits=(
            *catalogue.limits,
            *map(IN_MEMORY.format, scheduler.memory.used),
            *(serial.limits() if serial else ()),
        ),
        serial=bool(serial),
        not_compared=tuple(serial.not_compared()) if serial else (),
        unobserved=tuple(catalogue.unobserved),
        unseen_commits=tuple(catalogue.unseen_commits),
        isolation_level=isolation_level,
        unexplored=tuple(catalogue.unexplored),
        _run=race.run,
    )
    if each:  # it has been called with every schedule
        results.mark_read(found)
    return found


def run_schedule(
    order: str,
    processes: Sequence[Function],
    *,
    invariant: Invariant | None = None,
    like: Sequence[Function] = (),
    try_again: TryAgain | None = None,
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
        order: the process of each step, as in `1212`, for all steps of all processes. If a step
            closes a deadlock, a letter behind the step names the victim, as in `1212a21`.
        observe: called after each step, on the caller's connection, which sees what is
            committed. The step's `observed` is what it returns.

    The other arguments and errors are those of `explore`.

    Raises:
        ImpossibleSchedule: a process waits or has ended, and cannot take its step. Or the
            schedule ends before the processes end.
    """
    judged = judge_of(using, isolation_level, invariant, like, expected, try_again)
    race = Race(processes, setup, *judged, split_autocommit, max_steps, step_timeout)
    return race.run(order, observe)
