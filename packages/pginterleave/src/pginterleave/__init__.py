"""Run every schedule of a race against a real PostgreSQL, and keep those with a violation.

`explore` runs processes in all orders of their steps, one order after the other, and judges how
each ends. A complete exploration that finds nothing is a proof for these processes and this set-up.
`docs/model.md` says what a process, a step and a schedule are, and what an exploration does not
see. The README has an example.

    exploring.py    explore() and run_schedule(): start here; experiment.py is what they explore,
                    and results.py what they return
    searching/      runs.py runs the schedules that search.py chooses; state_graph.py counts them
    judging/        judge.py by an invariant, serial_orders.py by the serial orders: end_states.py
                    reads how a schedule ended, effects.py what was done elsewhere, and
                    compared_ends.py compares both, times.py by their distance from now
    processes/      runs the processes: scheduler.py lets one take a step, monitor.py knows which
                    one waits; process.py is a thread, session.py its session with PostgreSQL;
                    control.py is the caller's connection, rows.py puts the rows back, watching.py
                    and shared_memory.py notice what is no step, parts.py what a function holds,
                    clocks.py when Python reads its clock, and python_locks.py who waits for a lock
                    of Python
    sql/            reads SQL: statements.py and single_row.py its text, pg_catalog.py and
                    rows_touched.py what the names stand for; dependent_steps.py says whether the
                    order of two steps matters, lock_orders.py what one statement decides
    discovery/      explores the requests that the tests of a project send: its docstring has a map
    picture/        draws a schedule; steps.py and formatting.py write it as text, and choices.py
                    as a number
    testing.py      the part that pytest_plugin.py and django_test.py share; coverage_plugin.py
                    reports which lines that write were explored
    django/         the adapter for Django's connections and cursors; own_objects.py loads the
                    test's rows again in each process, and shared_objects.py names the others

A search asks a scheduler, a scheduler asks processes, and a judge reads ends. None asks back.
"""

from pginterleave.explorer_errors import (
    CannotExplore,
    ImpossibleSchedule,
    InterleaveError,
    NotDeterministic,
    StepTimeout,
)
from pginterleave.exploring import explore, run_schedule
from pginterleave.options import Options
from pginterleave.processes.scheduler import MAX_PROCESSES
from pginterleave.results import Exploration, NotProven, Schedule
from pginterleave.steps import Outcome, Step, Timeline

__all__ = [
    "MAX_PROCESSES",
    "CannotExplore",
    "Exploration",
    "ImpossibleSchedule",
    "InterleaveError",
    "NotDeterministic",
    "NotProven",
    "Options",
    "Outcome",
    "Schedule",
    "Step",
    "StepTimeout",
    "Timeline",
    "explore",
    "run_schedule",
]
