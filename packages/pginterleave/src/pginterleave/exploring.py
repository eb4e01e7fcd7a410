"""The public functions: explore all schedules, or run one of them."""

import time
from collections.abc import Sequence

from pginterleave import results
from pginterleave.explorer_errors import CannotExplore
from pginterleave.judging.effects import Also
from pginterleave.judging.judge import Expected, Invariant
from pginterleave.judging.serial_orders import TryAgain
from pginterleave.processes.control import Database
from pginterleave.processes.scheduler import Setup
from pginterleave.processes.verdict import Function
from pginterleave.race import Options, race_of
from pginterleave.results import AT_FIRST, Exploration, Schedule
from pginterleave.searching.runs import Run, shrink
from pginterleave.searching.search import Search

IN_MEMORY = "{}, which the processes of a server do not share"


def explore(
    processes: Sequence[Function],
    *,
    invariant: Invariant | None = None,
    like: Sequence[Function] = (),
    also: Also | None = None,
    expected: Expected = (),
    try_again: TryAgain | None = None,
    setup: Setup = lambda: None,
    using: str | Database = "default",
    isolation_level: str = "",
    count_all: bool = True,
    max_schedules: int = 10_000,
    max_seconds: float | None = None,
    options: Options = Options(),  # noqa: B008 - it is frozen
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
        also: without an invariant, returns what is compared besides rows and outcomes, such as
            `charge.call_count` of a Mock. It is called before and after each schedule. Of numbers
            the difference counts, and of lists what was added.
        expected: the class of an exception that a process may raise, or a tuple of classes. Any
            other exception is a violation, and the invariant does not run. Without an invariant,
            other exceptions are a violation if the process raises them in no serial order.
        try_again: without an invariant, whether an outcome says that the process found nothing
            free. It then runs once more alone before the comparison, as after an exception that
            is expected.
        setup: makes the first state of the database. It runs before each schedule, on the
            caller's connection, in autocommit mode. Without setup, nothing is restored.
        using: the alias of the database in Django's settings, or an adapter, such as
            PsycopgDatabase.
        isolation_level: of the processes' transactions, such as "repeatable read". By default the
            settings decide.
        count_all: whether to go on after a violation, to count all violations. Otherwise the search
            stops at the first one, and looks for a simpler schedule near it. After an exception
            that is not expected, it looks a little further for a schedule in which the invariant
            does not hold.
        max_schedules: the search is truncated after so many schedules. Those with the fewest
            preemptions run first.
        max_seconds: the search is truncated after the first schedule that ends later than this. By
            default there is no time limit, because a slow machine would prove less.
        options: what few explorations change; see `Options`.

    Raises:
        CannotExplore: inside a transaction, without PostgreSQL, with a limit out of range.
        StepTimeout: a process hangs; the message says where.
        NotDeterministic: in the same schedule, a process did not do the same as the last time. Or
            a schedule that was counted as equivalent has another result.
        InterleaveError: a schedule is longer than `max_steps`, or a process cannot connect.
        Exception: an exception of `setup`, `invariant` or `observe`, with a note saying when it was
            raised, or an exception of `on_schedule`.
    """
    if max_schedules < 1 or (max_seconds is not None and max_seconds <= 0):
        raise CannotExplore("max_schedules and max_seconds must be greater than zero.")
    race = race_of(
        processes,
        invariant=invariant,
        like=like,
        also=also,
        expected=expected,
        try_again=try_again,
        setup=setup,
        using=using,
        isolation_level=isolation_level,
        options=options,
    )
    serial = race.serial
    began = time.monotonic()
    with race.scheduler() as scheduler:
        catalogue = scheduler.control.catalogue
        scheduler.reduce = catalogue.reduced = options.reduces
        while True:
            search = Search(len(race.processes), reduces=options.reduces)
            run = Run(scheduler, search, options.observe, options.on_schedule)
            truncated = run.run_all(max_schedules, max_seconds, count_all=count_all)
            suspects = serial and run.violations and not race.like
            if not (suspects and serial and serial.learn_again(scheduler.run_in_turn)):
                break
        counterexample = run.counterexample()
        other = run.of_other_kind(counterexample)
        if counterexample and truncated == AT_FIRST:
            counterexample = shrink(counterexample, run.run_near)
        serial_failure = run.serial_failure()
    schedules, violating, raising = search.counted()
    by_limit = truncated not in ("", AT_FIRST)
    result = Exploration(
        orders=tuple(run.orders),
        violations=tuple(run.violations),
        counterexample=counterexample,
        other=other,
        serial_failure=serial_failure,
        schedules=schedules,
        violating=violating,
        raising=raising,
        truncated=truncated,
        covered=search.covered() if by_limit else "",
        left=run.estimate_left() if by_limit else 0,
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
    if options.on_schedule:  # it has been called with every schedule
        results.mark_read(result)
    return result


def run_schedule(
    order: str,
    processes: Sequence[Function],
    *,
    invariant: Invariant | None = None,
    like: Sequence[Function] = (),
    also: Also | None = None,
    expected: Expected = (),
    try_again: TryAgain | None = None,
    setup: Setup = lambda: None,
    using: str | Database = "default",
    isolation_level: str = "",
    options: Options = Options(),  # noqa: B008 - it is frozen
) -> Schedule:
    """Run one schedule from its written form, step for step.

    Args:
        order: the process of each step, as in `1212`, for all steps of all processes. If a step
            closes a deadlock, a letter behind the step names the victim, as in `1212a21`.

    The other arguments are those of `explore`.

    Raises:
        ImpossibleSchedule: the order is not that of a schedule of the processes.
        InterleaveError: as for `explore`.
    """
    race = race_of(
        processes,
        invariant=invariant,
        like=like,
        also=also,
        expected=expected,
        try_again=try_again,
        setup=setup,
        using=using,
        isolation_level=isolation_level,
        options=options,
    )
    return race.run(order, options.observe)
