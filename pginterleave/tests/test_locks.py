"""Locks of every kind, deadlocks, timeouts and isolation levels."""

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError, connection, transaction

from pginterleave import Exploration, NotDeterministic, Outcome, explore, monitor, scheduler

from . import counter
from .counter import Counter, counter_table, sql  # noqa: F401

pytestmark = pytest.mark.usefixtures("counter_table")


def names(outcomes: list[Outcome]) -> str:
    """Show each outcome: what was returned, or the name of the driver's error."""
    causes = [
        outcome.raised and (outcome.raised.__cause__ or outcome.raised) for outcome in outcomes
    ]
    shown = zip(causes, outcomes, strict=True)
    return " ".join(type(cause).__name__ if cause else str(o.returned) for cause, o in shown)


def seen(*processes: Callable[[], object]) -> dict[str, str]:
    """Return what each schedule leads to."""
    found = explore(processes, setup=counter.setup, invariant=names)
    assert found.complete
    assert len(found.violations) == found.schedules
    return {schedule.order: schedule.violation for schedule in found.violations}


def first_locked(**options: Any) -> str:
    with transaction.atomic():
        row = Counter.objects.select_for_update(**options).filter(key="a").first()
        return "locked" if row else "skipped"


def test_nowait_fails_at_once_while_the_row_is_locked() -> None:
    nowait = partial(first_locked, nowait=True)
    assert seen(nowait, nowait) == {
        "1122": "locked locked",
        "1212": "locked LockNotAvailable",
        "1221": "locked LockNotAvailable",
        "2112": "LockNotAvailable locked",
        "2121": "LockNotAvailable locked",
        "2211": "locked locked",
    }


def test_skip_locked_sees_nothing_while_the_row_is_locked() -> None:
    skip = partial(first_locked, skip_locked=True)
    assert seen(skip, skip)["1212"] == "locked skipped"
    assert seen(skip, skip)["1122"] == "locked locked"


def advisory_lock() -> None:
    with transaction.atomic():
        sql("SELECT pg_advisory_xact_lock(1)")
        counter.naive()


def session_lock_left_behind() -> None:
    sql("SELECT pg_advisory_lock(1)")
    counter.naive()


def table_lock() -> None:
    with transaction.atomic():
        sql("LOCK TABLE interleave_counter IN EXCLUSIVE MODE")
        counter.naive()


@pytest.mark.parametrize("resolve", [advisory_lock, session_lock_left_behind, table_lock])
def test_processes_queue_for_other_locks_too(resolve: Callable[[], object]) -> None:
    found = explore([resolve] * 2, setup=counter.setup, invariant=counter.counted(2))
    found.assert_safe()
    assert found.schedules == 2 * 4


def test_python_runs_in_one_process_at_a_time_when_several_are_let_go_at_once() -> None:
    """Processes 2 and 3 share the lock that the COMMIT of process 1 releases."""
    running: list[int] = []
    together: list[int] = []

    def exclusive() -> None:
        with transaction.atomic():
            sql("SELECT pg_advisory_xact_lock(1)")

    def shared(number: int) -> None:
        sql("SELECT pg_advisory_xact_lock_shared(1)")
        running.append(number)
        for _ in range(200):
            os.sched_yield()  # whoever else may run, runs now
            together.extend(running[1:])
        running.remove(number)

    processes: list[Callable[[], object]] = [exclusive, partial(shared, 2), partial(shared, 3)]
    found = explore(processes, setup=counter.setup, invariant=counter.anything)
    found.assert_safe()
    first = found.replay("1231").timeline
    assert [(step.waited_for, step.until) for step in first[1:3]] == [((1,), 4), ((1,), 4)]
    assert together == []


def crossed(first: int, second: int) -> str:
    with transaction.atomic():
        sql("UPDATE interleave_counter SET hits = hits + 1 WHERE id = %s", first)
        sql("UPDATE interleave_counter SET hits = hits + 1 WHERE id = %s", second)
        return "done"


def test_the_victim_of_a_deadlock_is_the_process_that_closed_the_cycle() -> None:
    outcomes = seen(partial(crossed, 1, 2), partial(crossed, 2, 1))
    assert {order: shown for order, shown in outcomes.items() if "Deadlock" in shown} == {
        "1212" + "21": "done DeadlockDetected",
        "1212" + "12": "done DeadlockDetected",
        "1221" + "12": "DeadlockDetected done",
        "1221" + "21": "DeadlockDetected done",
        "2112" + "21": "done DeadlockDetected",
        "2112" + "12": "done DeadlockDetected",
        "2121" + "12": "DeadlockDetected done",
        "2121" + "21": "DeadlockDetected done",
    }
    assert outcomes["111222"] == "done done"


def test_a_deadlock_is_in_the_timeline_and_a_retry_survives_it() -> None:
    def retried(first: int, second: int) -> None:
        for _ in range(2):
            try:
                crossed(first, second)
            except OperationalError:
                continue
            return

    def invariant(outcomes: list[Outcome]) -> str:
        return "" if counter.hits("a") == counter.hits("b") == 2 else "lost"

    processes = [partial(retried, 1, 2), partial(retried, 2, 1)]
    found = explore(processes, setup=counter.setup, invariant=invariant)
    found.assert_safe()
    for _ in range(5):
        victim = found.replay("121222122").timeline[3]
        assert (victim.error, victim.waited_for, victim.until) == ("DeadlockDetected", (1,), 4)


def impatient() -> str:
    with transaction.atomic():
        sql("SET LOCAL lock_timeout = '200ms'")
        sql("SELECT pg_advisory_xact_lock(1)")
        return "done"


def test_a_lock_timeout_does_not_pass_while_somebody_can_go_on() -> None:
    assert set(seen(impatient, impatient).values()) == {"done done"}


@pytest.mark.parametrize(
    ("timeout", "first_pause"),
    [
        ("lock_timeout", monitor.MIN_POLL_INTERVAL),
        ("lock_timeout", 0.1),  # over before anybody has asked PostgreSQL who waits
        ("statement_timeout", monitor.MIN_POLL_INTERVAL),
        ("statement_timeout", 0.1),
    ],
)
def test_a_timeout_that_is_too_short_is_an_error_and_never_counts(
    monkeypatch: pytest.MonkeyPatch, timeout: str, first_pause: float
) -> None:
    """Process 1 dawdles in Python with the lock, so that the wait of process 2 ends by a clock."""
    monkeypatch.setattr(scheduler, "ATTEMPTS", 3)
    monkeypatch.setattr(monitor, "MIN_POLL_INTERVAL", first_pause)

    def dawdle() -> None:
        with transaction.atomic():
            sql("SELECT pg_advisory_xact_lock(1)")
            sql("SELECT 1")
            time.sleep(0.1)

    def hurried() -> None:
        with transaction.atomic():
            sql(f"SET LOCAL {timeout} = '30ms'")
            sql("SELECT pg_advisory_xact_lock(1)")

    message = rf"A {timeout} ended the wait of process 2 .* too short.*xact_lock.*\(3 attempts\)"
    with pytest.raises(NotDeterministic, match=message):
        seen(dawdle, hurried)


def test_a_wait_that_another_process_cancels_is_an_outcome() -> None:
    """It has the code of a statement_timeout, but no clock had a part in it."""

    def cancel() -> None:
        with transaction.atomic():
            sql("SELECT pg_advisory_xact_lock(1)")
            sql(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE state = 'active'"
                " AND application_name = 'interleave process 2' AND datname = current_database()"
            )

    outcomes = seen(cancel, partial(sql, "SELECT pg_advisory_xact_lock(1)"))
    assert outcomes["1211"] == "None QueryCanceled"


def test_a_lock_timeout_ends_a_wait_for_somebody_else() -> None:
    foreign = connection.copy()
    with foreign.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(1)")
    try:
        assert seen(impatient) == {"111": "LockNotAvailable"}
    finally:
        foreign.close()


def at_level(level: str, resolve: Callable[[], object]) -> str:
    with transaction.atomic():
        sql(f"SET TRANSACTION ISOLATION LEVEL {level}")
        resolve()
        return "done"


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_lost_update_is_a_serialization_failure_instead(level: str) -> None:
    outcomes = seen(*[partial(at_level, level, counter.naive)] * 2)
    assert set(outcomes.values()) == {
        "done done",
        "done SerializationFailure",
        "SerializationFailure done",
    }
    assert outcomes["11112222"] == "done done"


def test_write_skew_is_found_at_repeatable_read_and_not_at_serializable() -> None:
    """Each sees that nobody has a hit and gives one to its own row."""

    def skew(level: str, key: str) -> str:
        return at_level(level, lambda: give(key))

    def give(key: str) -> None:
        if not Counter.objects.filter(hits__gt=0).exists():
            Counter.objects.filter(key=key).update(hits=1)

    def one_hit(outcomes: list[Outcome]) -> str:
        return "both" if counter.hits("a") and counter.hits("b") else ""

    def found(level: str) -> Exploration:
        processes = [partial(skew, level, "a"), partial(skew, level, "b")]
        return explore(processes, setup=counter.setup, invariant=one_hit)

    assert found("REPEATABLE READ").violations
    found("SERIALIZABLE").assert_safe()


def test_an_isolation_level_set_on_the_driver_does_not_outlive_the_schedule() -> None:
    def level() -> str:
        with transaction.atomic():
            before = sql("SHOW transaction_isolation")[0][0]
        connection.connection.isolation_level = 3  # repeatable read, in psycopg 2 and 3
        return str(before)

    found = explore([level] * 2, setup=counter.setup, invariant=names)
    assert {schedule.violation for schedule in found.violations} == {
        "read committed read committed"
    }


def test_a_statement_timeout_ends_a_statement_that_waits_for_nobody() -> None:
    def slow() -> None:
        with transaction.atomic():
            sql("SET LOCAL statement_timeout = '20ms'")
            sql("SELECT pg_sleep(60)")

    def fast() -> None:
        with pytest.raises(DatabaseError):
            sql("SELECT 1 / 0")

    assert {*seen(slow, fast).values()} == {"QueryCanceled None"}
