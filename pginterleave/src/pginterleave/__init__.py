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

The search is exhaustive, and begins with the schedules that switch between processes the least:
where a limit ends it, all with few preemptions have run. Every schedule counts, also those that
differ only in steps that cannot affect each other. Those need not all be run: with
`reduce=True` one of them stands for the others, and they are counted. Between two steps of the
schedule Python runs in one process at a time, so that shared Python objects are safe to use.

A statement outside a transaction is a transaction, and its COMMIT a step of its own, as another
statement can come before it: of what writes, locks rows or calls a function that may do so, and is
sent alone by one `execute`. With `split_autocommit=False` both are one step: fewer schedules, in
which two that look and write in one statement are not caught, as in INSERT … WHERE NOT EXISTS (…),
where both can find nothing.

PostgreSQL may end any process of a deadlock, so each is a branch of its own. What cannot be stepped
through is named in the result (`Exploration.limits`). Statements that went past the explorer
(`Exploration.unobserved`), or that commit within their step (`Exploration.unseen_commits`), as
`executemany` outside a transaction, leave it without a proof.

The README has an example, and what this cannot see and does not reset.

    exploring.py    explore() and run_schedule(): start here
    running.py      runs what is chosen; shrinking.py makes a counterexample simpler
    search.py       which schedule is next; states.py counts them, sampling.py draws some of them
    effects.py      which steps depend on each other, with statements.py; symmetry.py: which
                    processes are the same
    catalogue.py    what the names in statements stand for, and what is not explored of them
    scheduler.py    runs one schedule; monitor.py knows who waits, shutdown.py leaves nothing behind
    process.py      a thread that stops before each step; session.py its session with PostgreSQL
    control.py      the caller's connection, and what an adapter has to provide
    psycopg_adapter.py  the adapter for plain connections of psycopg 3
    isolation_spec/ runs PostgreSQL's isolation tests, without the scheduler
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
