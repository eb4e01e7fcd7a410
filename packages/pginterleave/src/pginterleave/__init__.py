"""Run every schedule of a race against a real PostgreSQL, and keep those with a violation.

Processes that touch the same rows can take their steps in many orders. A lost update, a
time-of-check to time-of-use error or a deadlock shows in some orders only. `explore` runs all
orders, one after the other, on one connection per process, and checks an invariant after each. The
code under test does not change. Nothing sleeps, and nothing depends on chance. A complete
exploration that finds nothing is a proof for these processes and this set-up.

A *process* is a callable without arguments. It runs in a separate thread and a separate session. A
*step* is one SQL statement, or a COMMIT or ROLLBACK that ends a transaction. A *schedule* is one
order of all the steps, written as the process of each: `1212`. `docs/model.md` defines these terms,
and says what an exploration does not see. The README has an example.

    exploring.py    explore() and run_schedule(): start here
    running.py      runs the chosen schedules, and makes a counterexample simpler
    search.py       which schedule is next; sampling.py draws some at random
    states.py       the graph of all states, which counts schedules; traces.py names a state
    effects.py      which steps depend on each other, and which certainly wait: statements.py and
                    statement_shapes.py read the SQL, footprints.py finds its rows
    symmetry.py     which processes are the same
    judging.py      judges a schedule by an invariant; serial_orders.py by the serial orders, for
                    which end_states.py reads the rows, values.py the results, and
                    compared_ends.py compares them
    catalogue.py    what the names in statements stand for, and which parts are not explored
    lock_orders.py  which statements take several locks; shared_memory.py which caches are used
    scheduler.py    runs one schedule; monitor.py knows which process waits for which
    process.py      a thread that stops before each step; session.py its session with PostgreSQL
    control.py      the caller's connection, and the interface of an adapter
    psycopg_adapter.py  the adapter for plain connections of psycopg 3
    django/         the adapter for Django's connections and cursors
    results.py      what explore() returns; steps.py and formatting.py write it for a reader
    race_coverage.py  which lines write, and which were explored; coverage_plugin.py reports it
    picture/        draws a schedule; reporting.py writes the page of all tests
"""

from pginterleave.explorer_errors import (
    CannotExplore,
    ImpossibleSchedule,
    InterleaveError,
    NotDeterministic,
    StepTimeout,
)
from pginterleave.exploring import explore, run_schedule
from pginterleave.results import Exploration, NotProven, Schedule
from pginterleave.running import Progress
from pginterleave.scheduler import MAX_PROCESSES
from pginterleave.steps import Outcome, Step, Timeline

__all__ = [
    "MAX_PROCESSES",
    "CannotExplore",
    "Exploration",
    "ImpossibleSchedule",
    "InterleaveError",
    "NotDeterministic",
    "NotProven",
    "Outcome",
    "Progress",
    "Schedule",
    "Step",
    "StepTimeout",
    "Timeline",
    "explore",
    "run_schedule",
]
