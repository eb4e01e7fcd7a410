"""The public functions: explore all schedules, or run one of them."""

import math
from collections.abc import Sequence
from typing import Any

from pginterleave.experiment import Experiment
from pginterleave.explorer_errors import CannotExplore
from pginterleave.judging.effects import Also
from pginterleave.judging.judge import Expected, Invariant
from pginterleave.judging.serial_orders import TryAgain
from pginterleave.options import Options
from pginterleave.processes.clocks import RealClock
from pginterleave.processes.judgement import Function
from pginterleave.processes.scheduler import Setup
from pginterleave.results import AT_FIRST, Exploration, Schedule, mark_read
from pginterleave.searching.runs import BEGIN_AGAIN, Run, shrink
from pginterleave.searching.search import Search
from pginterleave.searching.state_graph import Ending


def explore(
    processes: Sequence[Function],
    *,
    invariant: Invariant | None = None,
    like: Sequence[Function] = (),
    also: Also | None = None,
    expected: Expected = (),
    try_again: TryAgain | None = None,
    setup: Setup = lambda: None,
    using: str = "default",
    isolation_level: str = "",
    count_all: bool = True,
    max_schedules: int = 10_000,
    max_seconds: float | None = None,
    max_preemptions: int | None = None,
    options: Options = Options(),  # noqa: B008 - it is frozen
) -> Exploration:
    """Run every schedule of the processes and return which of them are wrong.

    With an `invariant`, a schedule is wrong if that does not hold afterwards. Without one, it is
    wrong if it ends as no serial order does, which runs the processes one after the other: in the
    rows of the tables that were written, or in what a process returned or raised.

    Args:
        processes: one to nine callables without arguments. What one returns or raises is the
            process's outcome. In the same schedule it has to do the same each time.
        invariant: runs after each schedule, on the caller's connection, with the list of
            outcomes. Returns what does not hold, or None or "", or fails with an assert.
        like: a reference for each process: functions whose serial orders are compared with. An
            invariant may be given besides.
        also: without an invariant, returns what is compared besides rows and outcomes, such as
            `charge.call_count` of a Mock. Called before and after each schedule: of numbers the
            difference counts, and of lists what was added.
        expected: the class of an exception that a process may raise, or a tuple of classes. Any
            other exception is a violation, and the invariant does not run. Without an invariant,
            other exceptions are a violation if the process raises them in no serial order.
        try_again: without an invariant, whether an outcome says that the process found nothing
            free. It then runs once more alone before the comparison, as after an expected error.
        setup: makes the first state of the database. It runs before each schedule, on the
            caller's connection, in autocommit mode. Without setup, nothing is restored.
        using: the alias of a database in Django's settings.
        isolation_level: of the processes' transactions: "repeatable read"; or as in the settings.
        count_all: whether to count all violations. Otherwise the search stops at the first one,
            and looks for a simpler schedule near it. After an exception that is not expected, it
            looks a little further for a schedule in which the invariant does not hold.
        max_schedules: the search is truncated after so many schedules. Those with the fewest
            preemptions run first.
        max_seconds: the search is truncated after the first schedule that ends later than this. By
            default there is no time limit, because a slow machine would prove less.
        max_preemptions: run only the schedules with at most so many preemptions. A preemption is a
            step of another process while the process of the last step could go on. Most races
            need one. The result names the schedules that are left out as a limit.
        options: what few explorations change; see `Options`.

    Raises:
        CannotExplore: inside a transaction, without PostgreSQL, with a limit out of range.
        StepTimeout: a process hangs; the message says where.
        NotDeterministic: in the same schedule, a process did not do the same as the last time, or
            a schedule that was counted as equivalent has another result.
        InterleaveError: a schedule is longer than `max_steps`, or a process cannot connect.
        Exception: of `on_schedule`, or of `setup`, `invariant` or `observe` with a note on when.
    """
    if max_schedules < 1 or (max_seconds is not None and max_seconds <= 0):
        raise CannotExplore("max_schedules and max_seconds must be greater than zero.")
    if max_preemptions is not None and max_preemptions < 0:
        raise CannotExplore(f"max_preemptions={max_preemptions} is less than zero.")
    experiment = Experiment(
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
    began = RealClock.monotonic()
    with experiment.start_scheduler() as scheduler:
        scheduler.reduce = options.reduces
        scheduler.control.catalogue.reduced = options.reduces
        while True:
            bound = math.inf if max_preemptions is None else max_preemptions
            run = Run(scheduler, Search(reduces=scheduler.reduce, max_preemptions=bound))
            truncated = run.run_all(max_schedules, max_seconds, count_all=count_all)
            if truncated == BEGIN_AGAIN:
                scheduler.reduce = not scheduler.monitor.locks_awaited
                continue
            if not run.violations or not experiment.serial_judge or experiment.like:
                break
            # What looks like a violation may be a clock that stood still in the serial orders.
            if not experiment.serial_judge.run_serial_orders_again(scheduler.run_in_turn):
                break
        result = _make_result(run, truncated, experiment, began)
    if options.on_schedule:  # it has been called with every schedule
        mark_read(result)
    return result


def _make_result(run: Run, truncated: str, experiment: Experiment, began: float) -> Exploration:
    """Return the result of a search, after the runs that find a simpler counterexample."""
    counterexample = run.find_counterexample()
    other = run.find_other_kind(counterexample) if counterexample else None
    if counterexample and truncated == AT_FIRST:
        counterexample = shrink(counterexample, run.run_similar)
    serial_failure = run.find_serial_failure()
    search = run.search
    endings = search.count_endings()
    has_reached_limit = truncated not in ("", AT_FIRST)
    is_whole = not (truncated or search.has_reached_bound)
    catalogue = run.scheduler.control.catalogue
    memory = run.scheduler.memory.used
    in_memory = [f"{name}, which the processes of a server do not share" for name in memory]
    clock_limits = run.scheduler.control.clock_reads.list_limits()
    serial_judge = experiment.serial_judge
    serial_limits = serial_judge.list_limits() if serial_judge else []
    return Exploration(
        orders=tuple(run.orders),
        violations=tuple(run.violations),
        counterexample=counterexample,
        other=other,
        serial_failure=serial_failure,
        schedules=endings.total(),
        violating=endings[Ending.VIOLATED] + endings[Ending.RAISED],
        raising=endings[Ending.RAISED],
        truncated=truncated,
        covered=search.describe_covered() if has_reached_limit else "",
        counted_preemptions=None if is_whole else search.counted_preemptions,
        left=run.estimate_left() if has_reached_limit else 0,
        seconds=RealClock.monotonic() - began,
        serial=serial_judge is not None,
        not_compared=tuple(serial_judge.list_not_compared()) if serial_judge else (),
        limits=(
            *search.list_limits(),
            *catalogue.limits,
            *in_memory,
            *experiment.shared_objects.list_limits(),
            *serial_limits,
            *clock_limits,
        ),
        unobserved=tuple(catalogue.unobserved),
        unseen_commits=tuple(catalogue.unseen_commits),
        unexplored=tuple(catalogue.unexplored),
    )


def run_schedule(order: str, processes: Sequence[Function], **arguments: Any) -> Schedule:
    """Run one schedule from its written form, step for step, and return it.

    Args:
        order: the process of each step, as in `1212`, for all steps of all processes. If a step
            closes a deadlock, a letter behind the step names the victim, as in `1212a21`.
        processes: as for `explore`.
        arguments: those of `explore`, but `count_all` and the limits of the search, `max_…`.

    Raises:
        ImpossibleSchedule: the order is not that of a schedule of the processes.
        InterleaveError: as for `explore`.
    """
    experiment = Experiment(processes, **arguments)
    with experiment.start_scheduler() as scheduler:
        return scheduler.run_order(order)
