"""Locks of every kind, deadlocks, timeouts and isolation levels."""

import itertools
import os
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial

import pytest
from django.db import DatabaseError, connection, transaction

from pginterleave import NotDeterministic, Outcome
from pginterleave.processes import monitor, scheduler

from . import counter
from .counter import Counter, Process, all_outcomes, explore_all, lock, replay, sql, transact

pytestmark = pytest.mark.usefixtures("counter_table")


def show_outcomes(outcomes: Sequence[Outcome]) -> str:
    """Write for each outcome what was returned, or the name of the driver's error."""
    texts = []
    for outcome in outcomes:
        error = outcome.raised
        texts.append(type(error.__cause__ or error).__name__ if error else str(outcome.returned))
    return " ".join(texts)


def show_by_order(*processes: Process) -> dict[str, str]:
    return {order: show_outcomes(outcomes) for order, outcomes in all_outcomes(*processes).items()}


def test_nowait_fails_at_once_while_the_row_is_locked() -> None:
    @transaction.atomic
    def nowait() -> str:
        Counter.objects.select_for_update(nowait=True).get(key="a")
        return "locked"

    assert show_by_order(nowait, nowait) == {
        "1122": "locked locked",
        "1212": "locked LockNotAvailable",
        "1221": "locked LockNotAvailable",
        "2112": "LockNotAvailable locked",
        "2121": "LockNotAvailable locked",
        "2211": "locked locked",
    }


def test_python_runs_in_one_process_at_a_time_when_several_continue_at_once() -> None:
    """Processes 2 and 3 share the lock that the COMMIT of process 1 releases."""
    running: list[int] = []
    together: list[int] = []

    @transaction.atomic
    def shared(number: int) -> None:
        sql("SELECT pg_advisory_xact_lock_shared(1)")
        running.append(number)
        for _ in range(200):
            os.sched_yield()  # any other thread that may run, runs now
            together.extend(running[1:])
        running.remove(number)

    processes = partial(lock, 1), partial(shared, 2), partial(shared, 3)
    found = explore_all(*processes)
    found.assert_safe()
    first = replay("123123", *processes).timeline
    assert [(step.waited_for, step.until) for step in first[1:3]] == [((1,), 4), ((1,), 4)]
    assert together == []


def update_rows(*rows: int) -> str:
    with transaction.atomic():
        for row in rows:
            sql("UPDATE interleave_counter SET hits = hits + 1 WHERE id = %s", row)
        return "done"


def test_either_process_of_a_deadlock_may_be_its_victim() -> None:
    """The victim is the process that closes the deadlock, or the one that a letter names."""
    processes = partial(update_rows, 1, 2), partial(update_rows, 2, 1)
    outcomes = show_by_order(*processes)
    assert {order: shown for order, shown in outcomes.items() if "Deadlock" in shown} == {
        f"{crossing}{end}": shown
        for crossings, shown in (
            (("1212", "2112", "1221b", "2121b"), "done DeadlockDetected"),
            (("1221", "2121", "1212a", "2112a"), "DeadlockDetected done"),
        )
        for crossing in crossings
        for end in ("12", "21")
    }
    assert outcomes["111222"] == "done done"
    for _ in range(5):
        victim = replay("121221", *processes).timeline[3]
        assert (victim.error, victim.waited_for, victim.until) == ("DeadlockDetected", (1,), 4)
        victim = replay("1212a21", *processes).timeline[2]
        assert (victim.error, victim.waited_for, victim.until) == ("DeadlockDetected", (2,), 4)


@pytest.mark.parametrize(
    ("order", "victim"), [("123123" + "321", 3), ("123123a" + "132", 1), ("123123b" + "213", 2)]
)
def test_each_of_three_in_a_deadlock_may_be_its_victim(order: str, victim: int) -> None:
    processes = partial(lock, 1, 2), partial(lock, 2, 3), partial(lock, 3, 1)
    outcomes = replay(order, *processes).outcomes
    assert [bool(each.raised) for each in outcomes] == [victim == each for each in (1, 2, 3)]


@pytest.mark.parametrize(
    ("timeout", "first_pause"),
    [
        ("lock_timeout", monitor.MIN_POLL_INTERVAL),
        ("lock_timeout", 0.1),  # over before the monitor has asked PostgreSQL for waits
        ("statement_timeout", monitor.MIN_POLL_INTERVAL),
        ("statement_timeout", 0.1),
    ],
)
def test_a_timeout_that_is_too_short_is_an_error_and_never_counts(
    monkeypatch: pytest.MonkeyPatch, timeout: str, first_pause: float
) -> None:
    """Process 1 is slow in Python and has the lock, so a timeout ends the wait of process 2."""
    monkeypatch.setattr(scheduler, "MAX_ATTEMPTS", 3)
    monkeypatch.setattr(monitor, "MIN_POLL_INTERVAL", first_pause)

    @transaction.atomic
    def be_slow() -> None:
        sql("SELECT pg_advisory_xact_lock(1)")
        sql("SELECT 1")
        time.sleep(0.1)

    hurried = partial(lock, 1, settings=f"SET LOCAL {timeout} = '30ms'")
    message = rf"A {timeout} ended the wait of process 2 .* too short.*xact_lock.*\(3 attempts\)"
    with pytest.raises(NotDeterministic, match=message):
        show_by_order(be_slow, hurried)


def test_a_wait_that_another_process_cancels_is_an_outcome() -> None:
    """It has the error code of a statement_timeout, but no timeout caused it."""
    lock_one = "SELECT pg_advisory_xact_lock(1)"
    cancel = transact(
        lock_one,
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE state = 'active'"
        " AND application_name = 'interleave process 2' AND datname = current_database()",
    )
    outcomes = show_by_order(cancel, partial(sql, lock_one))
    assert outcomes["1211"] == "None QueryCanceled"


def test_a_lock_timeout_ends_a_wait_for_another_session() -> None:
    with closing(connection.copy()) as foreign:
        with foreign.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(1)")
        impatient = partial(lock, 1, settings="SET LOCAL lock_timeout = '200ms'")
        assert show_by_order(impatient) == {"111": "LockNotAvailable"}


def test_an_isolation_level_set_on_the_driver_does_not_outlive_the_schedule() -> None:
    def level() -> str:
        with transaction.atomic():
            before = sql("SHOW transaction_isolation")[0][0]
        connection.connection.isolation_level = 3  # repeatable read, in psycopg 2 and 3
        return str(before)

    assert {*show_by_order(level, level).values()} == {"read committed read committed"}


def test_a_statement_timeout_ends_a_statement_that_does_not_wait() -> None:
    def slow() -> None:
        sql("SET statement_timeout = '20ms'")
        sql("SELECT pg_sleep(60)")

    def fast() -> None:
        with pytest.raises(DatabaseError):
            sql("SELECT 1 / 0")

    assert {*show_by_order(slow, fast).values()} == {"QueryCanceled None"}


def test_a_deferrable_transaction_waits_for_a_safe_snapshot() -> None:
    """This wait is not for a lock, so pg_locks does not show it."""

    @transaction.atomic
    def write() -> None:
        sql("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        counter.update_returning()

    @transaction.atomic
    def report() -> str:
        sql("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE")
        return f"reports {counter.hits()}"

    found = explore_all(write, report, invariant=show_outcomes, step_timeout=2.0)
    assert found.complete
    every = {"".join(order) for order in itertools.permutations("111222")}
    # Process 2 cannot commit before process 1 if its SELECT is between the UPDATE and the COMMIT.
    assert set(found.orders) == every - {"112221", "121221", "211221"}
    # After a wait it reports the state from before the wait.
    reported = {each.order for each in found.violations if each.violation == "None reports 1"}
    assert reported == {"111222", "112122", "121122", "211122"}
    waited = replay("112212", write, report, step_timeout=2.0).timeline[3]
    assert (waited.kind, waited.waited_for, waited.until) == ("SELECT", (1,), 5)
