"""What real code does: loops, errors, transactions in transactions, cursors of every kind."""

from functools import partial

import pytest
from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction

from . import counter
from .counter import Counter, Process, explored, replayed, sql

pytestmark = pytest.mark.usefixtures("counter_table")


def test_exceptions_are_outcomes() -> None:
    def fail() -> None:
        counter.naive()
        raise LookupError("gone")

    def exit_() -> None:
        raise SystemExit(3)

    def fail_in_a_circle() -> None:
        first, second = LookupError("first"), LookupError("second")
        first.__cause__, second.__cause__ = second, first
        raise first

    create = partial(Counter.objects.create, id=1, key="c", hits=0)
    schedule = replayed("1114", fail, exit_, fail_in_a_circle, create)
    raised = [type(each.raised) for each in schedule.outcomes]
    assert raised == [LookupError, SystemExit, LookupError, IntegrityError]
    step = schedule.timeline[-1]
    assert step.error == "UniqueViolation"
    assert "interleave_counter_pkey" in step.message


def test_a_cursor_of_a_closed_connection_is_refused_by_the_driver() -> None:
    def late() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            connection.close()
            cursor.execute("UPDATE interleave_counter SET hits = 1")

    found = explored(late, invariant=lambda _: "shown", reduce=True)
    error = found.violations[0].outcomes[0].raised
    assert isinstance(error, (InterfaceError, OperationalError))


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
    (on_commit, "SELECT UPDATE COMMIT UPDATE COMMIT"),
    (server_side_cursor, "SELECT FETCH FETCH FETCH COMMIT"),
    (iterated_cursor, "SELECT FETCH FETCH SELECT"),
    (executemany, "UPDATE"),
    (callproc, "SELECT"),
    (left_open, "UPDATE ROLLBACK"),
    (manual, "UPDATE COMMIT"),
    (nothing_to_commit, ""),
    (partial(sql, "SELECT 1; UPDATE interleave_counter SET hits = 1"), "SELECT"),
    (partial(sql, "/* a */ -- b\n (SELECT 1)"), "SELECT"),
    (partial(sql, "BEGIN"), "ROLLBACK"),
    (close, "SELECT CLOSE SELECT"),
]


@pytest.mark.parametrize(("process", "steps"), CODE)
def test_the_steps_of_a_process(process: Process, steps: str) -> None:
    kinds = steps.split()
    timeline = replayed("1" * len(kinds), process).timeline
    assert [step.kind.replace(" ", "-") for step in timeline] == kinds


def test_a_script_that_begins_with_begin_is_a_step() -> None:
    """It was taken for a bare BEGIN once, and what stood behind that ran unobserved."""

    def script() -> None:
        sql("BEGIN; SELECT hits FROM interleave_counter WHERE id = 1 FOR UPDATE")
        sql("UPDATE interleave_counter SET hits = hits + 1 WHERE id = 1; COMMIT")

    found = explored(script, script, invariant=counter.counted(2))
    # Not 1221 and 2112: who was sent second waits for the COMMIT of who was first.
    assert (len(found.violations), found.orders) == (0, ("1122", "2211", "1212", "2121"))
    whole = "START TRANSACTION; UPDATE interleave_counter SET hits = hits + 1; COMMIT"
    assert explored(*[partial(sql, whole)] * 2, invariant=counter.counted(2)).schedules == 2


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

    schedule = replayed("1", copied)
    assert schedule.outcomes[0].returned == 1
    assert [step.kind for step in schedule.timeline] == ["SELECT"]


def test_queries_are_still_logged_when_someone_asks() -> None:
    def logged() -> int:
        connection.force_debug_cursor = True
        counter.naive()
        return len(connection.queries)

    schedule = replayed("111", logged)
    assert schedule.outcomes[0].returned == 2
    assert [step.kind for step in schedule.timeline] == ["SELECT", "UPDATE", "COMMIT"]
