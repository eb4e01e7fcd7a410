"""Run every schedule of a race against a real PostgreSQL, and keep those with a violation.

Processes that touch the same rows can take their steps in many orders, and a lost update, a
time-of-check to time-of-use error or a deadlock shows in some of them only. `explore` runs them
all, one after the other, on one connection per process, and checks an invariant after each.
Nothing in the code under test changes, nothing sleeps and nothing is left to chance: an
exploration that is complete and found nothing is a proof for these processes and this set-up.

A *process* is a callable without arguments; it has a thread and a session of its own, kept from
schedule to schedule and put back to its first state after each. A *step* is one SQL statement it
sends through Django (ORM, raw cursor, savepoint, `executemany`, a FETCH from a server-side
cursor; several statements in one `execute` go to PostgreSQL in one message and are one step), or
a COMMIT or ROLLBACK that ends a transaction, or closing the connection. BEGIN is not a step, nor
is a COMMIT with nothing to commit. When a process ends, its session does: a transaction that is
still open is rolled back, advisory locks of the session are released, and each is a step too.
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

The README has an example, and what this cannot see and does not reset.

    exploring.py    explore() and run_schedule(): start here
    search.py       which schedule is next; effects.py and statements.py say which steps depend
    scheduler.py    runs one schedule; monitor.py knows who waits, shutdown.py leaves nothing behind
    process.py      a thread that stops before each step; session.py its session with PostgreSQL
    control.py      the caller's connection, and what an adapter has to provide
    django/         the adapter for Django's connections and cursors
    results.py      what comes back; steps.py, drawing.py and formatting.py show it to a reader
"""

from pginterleave.explorer_errors import (
    CannotExplore,
    ImpossibleSchedule,
    InterleaveError,
    NotDeterministic,
    StepTimeout,
)
from pginterleave.exploring import explore, run_schedule
from pginterleave.progress import Progress
from pginterleave.results import Exploration, Schedule
from pginterleave.scheduler import MAX_PROCESSES
from pginterleave.steps import Outcome, Step, Timeline

__all__ = [
    "MAX_PROCESSES",
    "CannotExplore",
    "Exploration",
    "ImpossibleSchedule",
    "InterleaveError",
    "NotDeterministic",
    "Outcome",
    "Progress",
    "Schedule",
    "Step",
    "StepTimeout",
    "Timeline",
    "explore",
    "run_schedule",
]
