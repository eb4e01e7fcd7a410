"""What the tests of all exercises share: the first rows, what may differ afterwards, refusals."""

import itertools
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

# Of an exploration: a function that never ends is refused within seconds.
LIMITS: dict[str, Any] = {"max_steps": 100, "step_timeout": 3.0, "reduce": True}
PATIENCE = 2.0  # seconds
MANY_SECONDS = 3.0  # for the schedules of three processes
STUCK = 20.0  # seconds in which none of several threads has ended a call
LONG_AGO = datetime(2022, 4, 29, tzinfo=UTC)
TARGET = "https://{}.example/"
FIELDS = ("target_url", "hits", "max_hits", "expires_at", "deleted_at", "owner_id")
NOWHERE: dict[str, dict[str, Any]] = {  # keys that lead nowhere, and why
    "deleted": {"deleted_at": LONG_AGO},
    "expired": {"expires_at": LONG_AGO},
    "used_up": {"hits": 2, "max_hits": 2},
}
LockNotAvailable = errors.LockNotAvailable
before: dict[str, Any] = {}  # the rows after the set-up


def refuse(sentence: str, *parts: str) -> NoReturn:
    """Fail the test: say what the solution did, in a sentence, and then the rest."""
    pytest.fail("\n\n".join([sentence, *parts]), pytrace=False)


class Violating(Exception):
    """Ends a search that takes long at a schedule that violates the invariant."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule.order)
        self.schedule = schedule


def judged(run: Interleave, *functions: Call, **options: Any) -> None:
    """Explore as `run` does, by default from links(), and say first what is wrong, in a sentence.

    Each function is one process. After two seconds it ends at a schedule that violates the
    invariant. Of three processes it runs as many schedules as MANY_SECONDS allow. It skips what the
    function itself refuses: to be called inside a transaction.
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
        pytest.skip("It says by durable=True that it is not for a transaction of the caller's.")
    elif isinstance(error, Violating):
        refuse_for(run, error.schedule, "One of the schedules")
    elif run.failures[known:]:
        refuse_for(run, run.failures[-1].counterexample, run.failures[-1].summary)
    else:  # nothing is proven, which may pass of many processes, or of one that sends nothing
        found = run.found[-1]
        nothing_sent = alone and found.orders == ("",)
        if not nothing_sent and not (many and found.truncated and not found.unobserved):
            refuse(said)


def refuse_for(run: Interleave, schedule: Schedule, summary: str) -> None:
    """Fail the test for a schedule: what it violates, its steps, what helps, how to run it."""
    drawn = schedule.draw()
    advice = [each for name, each in ADVICE.items() if name in drawn][:1]
    alone = f"{summary}. This one alone: {run.shell} {schedule.order}"
    refuse(f"{schedule.violation}.", drawn, *advice, alone)


def left_nothing(schedule: Schedule) -> None:
    """Fail the test if a session had to be put in order after its process had ended."""
    for step in schedule.timeline:
        if not step.filename and step.kind in LEFT:  # no line of the function has sent it
            refuse(f"Process {step.process} {LEFT[step.kind]}.", schedule.draw())


# The rows, at first and afterwards.


def links(**of_a: Any) -> Callable[[], None]:
    """Return a set-up: `a`, with these fields, somebody's `b`, and the keys that lead NOWHERE."""

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
    """Return how the short URLs differ from the set-up's with these changes; "" if they do not."""
    now, known = rows(), before["known"]
    wanted = known | {key: {**known.get(key, {"key": key}), **due[key]} for key in due}
    if stray := now.keys() - wanted.keys():
        return f"there is a link {min(stray)}, which nobody asked for"
    for key, fields in wanted.items():
        if key not in now:
            return f"the link {key} is not in the database"
        for name, value in fields.items():
            if now[key][name] != value:
                return f"{name} of {key} = {now[key][name]}, due {value}"
    return ""


def no_link(which: type[Exception]) -> Check:
    """Return the invariant that all processes are told `which`, and that no link changes."""

    def invariant(outcomes: list[Outcome]) -> str:
        for process, each in enumerate(outcomes, 1):
            if not isinstance(each.raised, which):
                return f"process {process} is returned {each.returned!r}, due {which.__name__}"
        return changed()

    return invariant


# How a function is called.


def in_a_transaction(call: Call) -> Call:

    def run() -> Any:
        with transaction.atomic():
            return call()

    return run


class Undone(Exception):
    """Rolls the caller's transaction back."""


def rolls_back(call: Call) -> Call:
    """Return what makes the call in a transaction that is rolled back; it returns what was wrong.

    The transaction has to be as it was: its settings, and what was written before.
    """

    def run() -> str:
        wrong = ""
        with suppress(Undone), transaction.atomic():
            Notification.objects.create(text="the caller's")
            settings = session()
            call()
            if session() != settings:
                wrong = "the caller's transaction has other settings than before"
            if not Notification.objects.exists():
                wrong = "what the caller wrote in its transaction before is gone"
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
    """Return the invariant after rolls_back(): nothing of it is left."""

    def invariant(outcomes: list[Outcome]) -> str:
        if left := outcomes[0].returned or check(outcomes) or Notification.objects.exists():
            said = left if isinstance(left, str) else "the caller's row"
            return f"the caller's transaction was rolled back, and not all is undone: {said}"
        return ""

    return invariant


ERRORS = {  # what fails in place of a write, which no function may take for what it expects itself
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
    every: int = 1,
    **options: Any,
) -> None:
    """Refuse a call that swallows an error of the database, or raises what is `meant` otherwise.

    Of the writes, each fails, or `every` second one.
    """
    for name in ERRORS:

        def run(name: str = name) -> Any:
            with failing(name, every):
                return call()

        def is_told(outcomes: list[Outcome], name: str = name) -> str:
            raised = outcomes[0].raised
            if raised and not isinstance(raised, meant):
                return check(outcomes)
            said = type(raised).__name__ if raised else f"returned {outcomes[0].returned!r}"
            return f"the database refuses the write ({name}), and process 1 is told {said}"

        interleave(run, invariant=is_told, expected=Exception, **options)


@contextmanager
def failing(name: str, every: int) -> Iterator[None]:
    """Within the block, writes fail with this one of ERRORS; of two, if `every` is 2, one does."""
    writes = itertools.count(1)

    def fail(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        if not re.search(r"\b(INSERT|UPDATE|MERGE|LOCK TABLE)\b", str(sql)):
            return execute(sql, params, many, context)
        if next(writes) % every:
            return execute(sql, params, many, context)
        execute(ERRORS[name], None, False, context)
        raise OperationalError("canceling statement due to lock timeout") from LockNotAvailable()

    with connection.execute_wrapper(fail):
        yield


def in_threads(call: Callable[[int], Any], *, threads: int = 4, times: int = 20) -> list[Any]:
    """Call it in plain threads, without the explorer; return what the calls returned or raised.

    Each thread calls it with 0, 1, 2 and so on. Deadlocks are found sooner than after a second, the
    default: a right solution that tries again may meet many.
    """
    told: list[Any] = []

    def work() -> None:
        try:
            with suppress(ProgrammingError), connection.cursor() as cursor:  # not for this role
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
        refuse("Of plain threads that call it, one waits for ever.")
    return told


LEFT = {
    "CLOSE": (
        "has ended, and its session still holds an advisory lock, as long as the connection lives: "
        "pg_advisory_xact_lock ends with the transaction"
    ),
    "ROLLBACK": "ends in the middle of a transaction, which is rolled back with all that it wrote",
}
WAITS_IN_PYTHON = (
    "A process waits in Python, for ever or for what another process holds: a lock, a file, a "
    "cache. Another worker of a service, on another machine, knows of none of them: lock in the "
    "database."
)
ENDLESS = "A process may try for ever: let each loop end, and let the database wait for a lock."
NOT_THE_SAME = (
    "It did something else when the same schedule was run once more: take keys and times from the "
    "arguments, keep nothing in Python, and leave nothing to chance."
)
# By what the drawing of a schedule has.
ADVICE = {
    "select_for_update cannot be used": (
        "A row lock is held until the transaction ends, and outside atomic() that is at once."
    ),
    "TransactionManagementError": (
        "After an error the transaction is aborted. Put what may fail into an atomic() of its own, "
        "which is a savepoint, and catch the error outside of that."
    ),
    "DeadlockDetected": (
        "Each process held a lock that the other waited for, so PostgreSQL ended one of them. When "
        "all take their locks in the same order, no circle can close."
    ),
    "SerializationFailure": (
        "PostgreSQL refused to change a row that others had changed since the snapshot of the "
        "transaction. The whole transaction has to be run again."
    ),
    "LockNotAvailable": "NOWAIT does not wait: without it, PostgreSQL does.",
    "SKIP LOCKED": "SKIP LOCKED passes over a locked row as if it were not there.",
}
