"""Shared by the tests of all exercises: the set-up, checks of the rows, and refusals."""

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, NoReturn
from unittest.mock import patch

import pytest
from django.db import OperationalError, ProgrammingError, connection, transaction
from django.db.backends.postgresql.psycopg_any import errors

from lab.models import Notification
from pginterleave import InterleaveError, Outcome, Schedule, StepTimeout
from pginterleave.pytest_plugin import Interleave
from shorturl.models import ShortUrl

Call = Callable[[], Any]
Check = Callable[[list[Outcome]], str]

# The explorer's limits: a function that never ends is refused within seconds.
LIMITS: dict[str, Any] = {"max_steps": 100, "step_timeout": 3.0, "reduce": True}
PATIENCE = 2.0  # seconds; a longer search stops at the first violating schedule
MANY_SECONDS = 3.0  # for the schedules of three processes
STUCK = 20.0  # seconds without a completed call in any of the threads
LONG_AGO = datetime(2022, 4, 29, tzinfo=UTC)
TARGET = "https://{}.example/"
FIELDS = ("target_url", "hits", "max_hits", "expires_at", "deleted_at", "owner_id")
NOWHERE: dict[str, dict[str, Any]] = {  # keys that lead nowhere, and the columns that say so
    "deleted": {"deleted_at": LONG_AGO},
    "expired": {"expires_at": LONG_AGO},
    "used_up": {"hits": 2, "max_hits": 2},
}
before: dict[str, Any] = {}  # the rows after the set-up


def refuse(sentence: str, *parts: str) -> NoReturn:
    """Fail the test with a sentence about what the solution did, followed by the details."""
    pytest.fail("\n\n".join([sentence, *parts]), pytrace=False)


class Violating(Exception):
    """Ends a long search at a schedule that violates the invariant."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule.order)
        self.schedule = schedule


def judged(run: Interleave, *functions: Call, **options: Any) -> None:
    """Explore like `run`, by default from links(); a failure begins with a sentence on its cause.

    Each function is one process. After PATIENCE the search ends at the first schedule that violates
    the invariant. With three processes it ends after MANY_SECONDS. The test is skipped if the
    solution is durable=True, and so refuses to run in a caller's transaction.
    """
    __tracebackhide__ = True
    many, alone = len(functions) > 2, len(functions) == 1
    options = {"setup": links(), **options, **({"processes": 1} if alone else {})}
    if many:
        options["max_seconds"] = MANY_SECONDS
    began, violating = time.monotonic(), list[Schedule]()

    def each(schedule: Schedule) -> None:
        left_nothing(schedule)
        violating.extend([schedule] if schedule.violation else [])
        if violating and time.monotonic() - began > PATIENCE:
            raise Violating(violating[0])

    known = len(run.failures)
    try:
        run(*functions, each=each, **options)
        return
    except (InterleaveError, AssertionError, Violating) as raised:
        error, said = raised, str(raised)
    if isinstance(error, InterleaveError):
        sentence = ENDLESS if "max_steps" in said else NOT_THE_SAME
        refuse(WAITS_IN_PYTHON if isinstance(error, StepTimeout) else sentence, said)
    elif "durable atomic block" in " ".join([said, *(one.violation for one in violating)]):
        pytest.skip("With durable=True it refuses to run in a caller's transaction.")
    elif isinstance(error, Violating):
        refuse_for(run, error.schedule, "One of the schedules")
    elif run.failures[known:]:
        refuse_for(run, run.failures[-1].counterexample, run.failures[-1].summary)
    else:  # not proven: allowed for many processes, and for one process that sends nothing
        found = run.found[-1]
        nothing_sent = alone and found.orders == ("",)
        if not nothing_sent and not (many and found.truncated and not found.unobserved):
            refuse(said)


def refuse_for(run: Interleave, schedule: Schedule, summary: str) -> None:
    """Fail the test with a schedule: its violation, its steps, advice, and how to run it again."""
    drawn = schedule.draw()
    advice = [each for name, each in ADVICE.items() if name in drawn][:1]
    alone = f"{summary}. This one alone: {run.shell} {schedule.order}"
    refuse(f"{schedule.violation}.", drawn, *advice, alone)


def left_nothing(schedule: Schedule) -> None:
    """Fail the test if a process left a transaction open or a session lock held."""
    for step in schedule.timeline:
        if not step.filename and step.kind in LEFT:  # sent by the explorer, not by the function
            refuse(f"Process {step.process} {LEFT[step.kind]}.", schedule.draw())


# The rows.


def links(**of_a: Any) -> Callable[[], None]:
    """Return a set-up with the links `a` (with these fields), `b`, and those that lead NOWHERE."""

    def setup() -> None:
        fields = {"a": of_a, "b": {"hits": 7}, **NOWHERE}
        ShortUrl.objects.bulk_create(
            ShortUrl(key=key, **{"target_url": TARGET.format(key), "created_at": LONG_AGO} | given)
            for key, given in fields.items()
        )
        before.update(known=rows())

    return setup


def rows() -> dict[str, dict[str, Any]]:
    return {each["key"]: each for each in ShortUrl.objects.values("key", *FIELDS)}


def changed(**due: dict[str, Any]) -> str:
    """Return how the short URLs differ from those of the set-up with these changes, or ""."""
    now, known = rows(), before["known"]
    wanted = known | {key: {**known.get(key, {"key": key}), **due[key]} for key in due}
    if stray := now.keys() - wanted.keys():
        return f"there is an unexpected link {min(stray)}"
    for key, fields in wanted.items():
        if key not in now:
            return f"the link {key} is not in the database"
        for name, value in fields.items():
            if now[key][name] != value:
                return f"{name} of {key} = {now[key][name]}, expected {value}"
    return ""


def no_link(which: type[Exception]) -> Check:
    """Return the invariant that all processes raise `which`, and that no link changes."""

    def invariant(outcomes: list[Outcome]) -> str:
        for process, each in enumerate(outcomes, 1):
            if not isinstance(each.raised, which):
                return f"process {process} gets {each.returned!r}, expected {which.__name__}"
        return changed()

    return invariant


# How a solution is called.


def in_a_transaction(call: Call) -> Call:
    def run() -> Any:
        with transaction.atomic():
            return call()

    return run


class Undone(Exception):
    """Rolls the caller's transaction back."""


def rolls_back(call: Call) -> Call:
    """Return a function that calls `call` in a transaction, rolls it back, and returns what failed.

    The call must keep the settings of the transaction and the row that was written before.
    """

    def run() -> str:
        wrong = ""
        with suppress(Undone), transaction.atomic():
            Notification.objects.create(text="the caller's")
            settings = session()
            call()
            if session() != settings:
                wrong = "the settings of the caller's transaction have changed"
            if not Notification.objects.exists():
                wrong = "a row that the caller wrote before in its transaction is gone"
            raise Undone
        return wrong

    return run


def session() -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name, setting FROM pg_settings"
            " WHERE source = 'session' OR name LIKE 'transaction_%' ORDER BY name"
        )
        found: list[Any] = cursor.fetchall()
    return found


def undone(check: Check = lambda _: changed()) -> Check:
    """Return the invariant after rolls_back(): the transaction has left no change."""

    def invariant(outcomes: list[Outcome]) -> str:
        if left := outcomes[0].returned or check(outcomes) or Notification.objects.exists():
            said = left if isinstance(left, str) else "the caller's row"
            return f"the caller's transaction was rolled back, and this is not undone: {said}"
        return ""

    return invariant


ERRORS = {  # statements that fail in place of a write, with errors that no solution may handle
    "a CHECK": "INSERT INTO shorturl_shorturl (key, target_url, hits) VALUES ('x', 'x', -1)",
    "another unique constraint": "INSERT INTO shorturl_reuseclaim VALUES ('x'), ('x')",
    "a value too long": "UPDATE shorturl_shorturl SET key = repeat('x', 99)",
    "a lock_timeout": "SELECT 'waits for a lock'",
}


def errors_are_raised(
    interleave: Callable[..., None],
    call: Call,
    *,
    meant: type[Exception],
    check: Check = lambda _: changed(),
    **options: Any,
) -> None:
    """Fail the test if the call swallows an error of the database or raises `meant` instead."""
    for name in ERRORS:

        def run(name: str = name) -> Any:
            with failing(name):
                return call()

        def is_told(outcomes: list[Outcome], name: str = name) -> str:
            raised = outcomes[0].raised
            if raised and not isinstance(raised, meant):
                return check(outcomes)
            said = f"raises {type(raised).__name__}"
            if not raised:
                said = f"returns {outcomes[0].returned!r}"
            return f"the database refuses the write ({name}), and process 1 {said}"

        interleave(run, invariant=is_told, expected=Exception, **options)


@contextmanager
def failing(name: str) -> Iterator[None]:
    """Within the block, every write fails with this one of ERRORS."""

    def fail(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        if not re.search(r"\b(INSERT|UPDATE|MERGE|LOCK TABLE)\b", str(sql)):
            return execute(sql, params, many, context)
        execute(ERRORS[name], None, False, context)
        raise OperationalError(
            "canceling statement due to lock timeout"
        ) from errors.LockNotAvailable()

    with connection.execute_wrapper(fail):
        yield


def in_threads(call: Callable[[int], Any], *, threads: int = 4, times: int = 20) -> list[Any]:
    """Call it in plain threads, without the explorer; return what the calls returned or raised.

    Each thread calls it with 0, 1, 2 and so on. deadlock_timeout is shorter than its default of one
    second, because a correct solution that tries again may meet many deadlocks.
    """
    told: list[Any] = []

    def work() -> None:
        try:
            # A role without the privilege keeps the default.
            with suppress(ProgrammingError), connection.cursor() as cursor:
                cursor.execute("SET deadlock_timeout = '10ms'")
            for number in range(times):
                try:
                    told.append(call(number))
                except Exception as error:  # a solution can fail in any way
                    told.append(error)
        finally:
            connection.close()

    explorer = [name for name in sys.modules if name.startswith("pginterleave")]
    with patch.dict(sys.modules):
        for name in explorer:
            del sys.modules[name]
        running = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
        for each in running:
            each.start()
        ended = -1
        while any(each.is_alive() for each in running) and len(told) > ended:
            ended, until = len(told), time.monotonic() + STUCK
            for each in running:
                each.join(max(0, until - time.monotonic()))
    if any(each.is_alive() for each in running):
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid != pg_backend_pid()"
            )
        refuse("Plain threads call it, and one of them waits for ever.")
    return told


LEFT = {
    "CLOSE": (
        "has ended, and its session still holds an advisory lock until the connection closes: "
        "pg_advisory_xact_lock releases its lock with the transaction"
    ),
    "ROLLBACK": "ends inside a transaction, so everything that it wrote there is rolled back",
}
WAITS_IN_PYTHON = (
    "A process waits in Python, for ever or for another process: for a lock, a file or a cache. "
    "A worker on another machine does not share these: lock in the database."
)
ENDLESS = "A process may try for ever: limit each loop, and wait for locks in the database."
NOT_THE_SAME = (
    "It did something else when the same schedule ran again: take keys and times from the "
    "arguments, keep no state in Python, and use nothing random."
)
# The keys are texts in the drawing of a schedule.
ADVICE = {
    "select_for_update cannot be used": (
        "A row lock lasts until the transaction ends. Outside atomic() each statement is a "
        "transaction."
    ),
    "TransactionManagementError": (
        "After an error PostgreSQL refuses the rest of the transaction. Put the statement that may "
        "fail into a nested atomic(), which is a savepoint, and catch the error outside it."
    ),
    "DeadlockDetected": (
        "Each process held a lock that the other waited for, so PostgreSQL ended one of them. A "
        "deadlock is impossible if all processes take their locks in the same order."
    ),
    "SerializationFailure": (
        "PostgreSQL refused to change a row that another transaction had changed since the "
        "snapshot of this one. The whole transaction has to be run again."
    ),
    "LockNotAvailable": "With NOWAIT a locked row is an error; without it, PostgreSQL waits.",
    "SKIP LOCKED": "SKIP LOCKED ignores a locked row, as if it did not exist.",
}
