"""What real code does: loops, errors, transactions in transactions, cursors of every kind."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction

from pginterleave import Exploration, Outcome, explore

from . import counter
from .counter import Counter, counter_table, sql  # noqa: F401

pytestmark = pytest.mark.usefixtures("counter_table")


def run(
    *processes: Callable[[], object], invariant: Any = counter.anything, **options: Any
) -> Exploration:
    found = explore(processes, setup=counter.setup, invariant=invariant, **options)
    assert found.complete
    return found


def kinds(process: Callable[[], object]) -> list[str]:
    """Return the kinds of a lone process's steps."""
    found = run(process, invariant=lambda outcomes: "shown")
    assert found.schedules == 1
    return [step.kind for step in found.violations[0].timeline]


def test_a_process_without_sql_has_no_steps() -> None:
    found = run(lambda: 1, counter.naive, counter.naive, invariant=counter.counted(2))
    assert (len(found.violations), found.schedules) == (4, 6)
    nothing = run(lambda: 1, lambda: 2, invariant=lambda outcomes: f"{outcomes[1].returned}")
    assert (nothing.schedules, nothing.violations[0].order, nothing.violations[0].violation) == (
        1,
        "",
        "2",
    )


def test_retries_make_schedules_of_different_lengths() -> None:
    found = run(
        counter.compare_and_swap, counter.compare_and_swap, invariant=lambda outcomes: "shown"
    )
    assert {len(schedule.order) for schedule in found.violations} == {4, 6}


def test_exceptions_are_outcomes() -> None:
    def fail() -> None:
        counter.naive()
        raise LookupError("gone")

    def exit_() -> None:
        raise SystemExit(3)

    seen: list[list[Outcome]] = []
    run(fail, exit_, invariant=seen.append)
    ((first, second),) = seen
    assert isinstance(first.raised, LookupError)
    assert isinstance(second.raised, SystemExit)
    assert first.returned is None


def test_exceptions_of_each_other_are_an_outcome() -> None:
    def fail() -> None:
        first, second = LookupError("first"), LookupError("second")
        first.__cause__, second.__cause__ = second, first
        raise first

    seen: list[list[Outcome]] = []
    run(fail, invariant=seen.append)
    assert isinstance(seen[0][0].raised, LookupError)


def test_a_cursor_of_a_closed_connection_is_refused_by_the_driver() -> None:
    def late() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            connection.close()
            cursor.execute("UPDATE interleave_counter SET hits = 1")

    seen: list[list[Outcome]] = []
    run(late, invariant=seen.append, reduce=True, split_autocommit=True)
    assert isinstance(seen[0][0].raised, (InterfaceError, OperationalError))


def test_a_database_error_is_an_outcome_and_in_the_timeline() -> None:
    found = run(
        lambda: Counter.objects.create(id=1, key="c", hits=0),
        invariant=lambda outcomes: type(outcomes[0].raised).__name__,
    )
    assert found.violations[0].violation == "IntegrityError"
    (step,) = found.violations[0].timeline
    assert step.error == "UniqueViolation"
    assert "interleave_counter_pkey" in step.message


def nested() -> None:
    with transaction.atomic():
        counter.naive()
        try:
            with transaction.atomic():
                Counter.objects.create(id=1, key="c", hits=0)
        except IntegrityError:
            with transaction.atomic():
                counter.naive()


def caught_inside() -> None:
    with transaction.atomic():
        for _ in range(2):
            try:
                Counter.objects.create(id=1, key="c", hits=0)
            except (IntegrityError, transaction.TransactionManagementError):
                continue


def on_commit() -> None:
    with transaction.atomic():
        transaction.on_commit(counter.update_returning)
        counter.naive()


def server_side_cursor() -> int:
    with transaction.atomic():
        return sum(each.hits for each in Counter.objects.iterator(chunk_size=1))


def iterated_cursor() -> None:
    with connection.chunked_cursor() as cursor:
        cursor.execute("SELECT 1")
        assert list(cursor) == [(1,)]
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 UNION ALL SELECT 2")
        assert list(cursor) == [(1,), (2,)]


def executemany() -> None:
    with connection.cursor() as cursor:
        cursor.executemany("UPDATE interleave_counter SET hits = %s", [(1,), (2,)])


def callproc() -> None:
    with connection.cursor() as cursor:
        cursor.callproc("abs", [-1])
        assert cursor.fetchone() == (1,)


def left_open() -> None:
    transaction.set_autocommit(False)
    counter.update_returning()


def manual() -> None:
    transaction.set_autocommit(False)
    counter.update_returning()
    transaction.commit()
    transaction.set_autocommit(True)


def nothing_to_commit() -> None:
    with transaction.atomic():
        pass


def close() -> None:
    counter.hits()
    connection.close()
    counter.hits()


CODE = [
    (
        nested,
        "SELECT UPDATE SAVEPOINT INSERT ROLLBACK-TO RELEASE SAVEPOINT SELECT UPDATE RELEASE COMMIT",
    ),
    (caught_inside, "INSERT ROLLBACK"),
    (on_commit, "SELECT UPDATE COMMIT UPDATE"),
    (server_side_cursor, "SELECT FETCH FETCH FETCH COMMIT"),
    (iterated_cursor, "SELECT FETCH FETCH SELECT"),
    (executemany, "UPDATE"),
    (callproc, "CALL"),
    (left_open, "UPDATE ROLLBACK"),
    (manual, "UPDATE COMMIT"),
    (nothing_to_commit, ""),
    (partial(sql, "SELECT 1; UPDATE interleave_counter SET hits = 1"), "SELECT"),
    (partial(sql, "/* a */ -- b\n (SELECT 1)"), "SELECT"),
    (partial(sql, "BEGIN"), "ROLLBACK"),
    (close, "SELECT CLOSE SELECT"),
]


@pytest.mark.parametrize(("process", "steps"), CODE)
def test_the_steps_of_a_process(process: Callable[[], object], steps: str) -> None:
    assert [kind.replace(" ", "-") for kind in kinds(process)] == steps.split()


def test_several_statements_in_one_execute_are_one_step() -> None:
    both = partial(sql, "UPDATE interleave_counter SET hits = hits + 1; SELECT 1")
    found = run(both, both, invariant=counter.counted(2))
    assert (len(found.violations), found.schedules) == (0, 2)


def test_a_script_that_begins_with_begin_is_a_step() -> None:
    """It was taken for a bare BEGIN once, and what stood behind that ran unobserved."""

    def script() -> None:
        sql("BEGIN; SELECT hits FROM interleave_counter WHERE id = 1 FOR UPDATE")
        sql("UPDATE interleave_counter SET hits = hits + 1 WHERE id = 1; COMMIT")

    found = run(script, script, invariant=counter.counted(2))
    # Not 1221 and 2112: who was sent second waits for the COMMIT of who was first.
    assert (len(found.violations), found.orders) == (0, ("1122", "1212", "2121", "2211"))
    whole = "START TRANSACTION; UPDATE interleave_counter SET hits = hits + 1; COMMIT"
    assert run(*[partial(sql, whole)] * 2, invariant=counter.counted(2)).schedules == 2


def test_a_copy_of_the_connection_works_unobserved() -> None:
    def copied() -> int:
        copy = connection.copy()
        copy.force_debug_cursor = True
        try:
            with transaction.atomic(), copy.cursor() as cursor:
                copy.set_autocommit(False)
                cursor.execute("UPDATE interleave_counter SET hits = 7 WHERE id = 2")
                copy.rollback()
                cursor.execute("UPDATE interleave_counter SET hits = 1 WHERE id = 2")
                copy.commit()
        finally:
            copy.close()
        with connection._nodb_cursor() as cursor:  # Django's own copy
            cursor.execute("SELECT 1")
        return counter.hits("b")

    seen: list[list[Outcome]] = []
    run(copied, invariant=seen.append)
    assert seen[0][0] == Outcome(returned=1)
    assert kinds(copied) == ["SELECT"]


def test_queries_are_still_logged_when_someone_asks() -> None:
    def logged() -> int:
        connection.force_debug_cursor = True
        counter.naive()
        return len(connection.queries)

    seen: list[list[Outcome]] = []
    run(logged, invariant=seen.append)
    assert seen[0][0].returned == 2
    assert kinds(logged) == ["SELECT", "UPDATE"]
