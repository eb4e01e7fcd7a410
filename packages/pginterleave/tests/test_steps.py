"""The steps of real code, and the timeline of a schedule that is replayed from its written form."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction

from pginterleave import ImpossibleSchedule, formatting

from . import counter
from .counter import Counter, Process, explore_all, lock, replay, sql, transact

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
    schedule = replay("1114", fail, exit_, fail_in_a_circle, create)
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

    found = explore_all(late, invariant=lambda _: "shown", reduce=True)
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
        return sum(row.hits for row in Counter.objects.iterator(chunk_size=1))


def iterated_cursor() -> None:
    with connection.chunked_cursor() as cursor:
        cursor.execute("SELECT 1")
        assert list(cursor) == [(1,)]
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 UNION ALL SELECT 2")
        assert list(cursor) == [(1,), (2,)]


def with_cursor(*uses: Callable[[Any], object]) -> Process:
    def process() -> None:
        with connection.cursor() as cursor:
            for use in uses:
                use(cursor)

    return process


def left_open() -> None:
    transaction.set_autocommit(False)
    counter.update_returning()


def manual() -> None:
    left_open()
    transaction.commit()
    transaction.set_autocommit(True)


def close() -> None:
    counter.hits()
    connection.close()
    counter.hits()


def delete() -> None:
    """A receiver of pre_delete, of the explorer's own, would make Django read the rows before."""
    Counter.objects.filter(key="a").delete()


CODE = [
    (
        nested,
        "SELECT UPDATE SAVEPOINT INSERT ROLLBACK-TO RELEASE SAVEPOINT SELECT UPDATE RELEASE COMMIT",
    ),
    (caught_inside, "INSERT ROLLBACK"),
    (on_commit, "SELECT UPDATE COMMIT UPDATE COMMIT"),
    (server_side_cursor, "SELECT FETCH FETCH FETCH COMMIT"),
    (iterated_cursor, "SELECT FETCH FETCH SELECT"),
    (
        with_cursor(lambda it: it.executemany("UPDATE interleave_counter SET hits = %s", [(1,)])),
        "UPDATE",
    ),
    (with_cursor(lambda it: it.callproc("abs", [-1])), "SELECT"),
    (left_open, "UPDATE ROLLBACK"),
    (manual, "UPDATE COMMIT"),
    (transact(), ""),
    (partial(sql, "SELECT 1; UPDATE interleave_counter SET hits = 1"), "SELECT"),
    (partial(sql, "/* a */ -- b\n (SELECT 1)"), "SELECT"),
    (partial(sql, "BEGIN"), "ROLLBACK"),
    (close, "SELECT CLOSE SELECT"),
    (delete, "DELETE COMMIT"),
]


@pytest.mark.parametrize(("process", "steps"), CODE)
def test_the_steps_of_a_process(process: Process, steps: str) -> None:
    kinds = steps.split()
    timeline = replay("1" * len(kinds), process).timeline
    assert [step.kind.replace(" ", "-") for step in timeline] == kinds


def test_a_script_that_begins_with_begin_is_a_step() -> None:
    """Behind a bare BEGIN, the other statements would run unobserved."""

    def script() -> None:
        sql("BEGIN; SELECT hits FROM interleave_counter WHERE id = 1 FOR UPDATE")
        sql("UPDATE interleave_counter SET hits = hits + 1 WHERE id = 1; COMMIT")

    found = explore_all(script, script, invariant=counter.expect_hits(2))
    # Not 1221 and 2112: the second process waits for the COMMIT of the first.
    assert (len(found.violations), found.orders) == (0, ("1122", "2211", "1212", "2121"))
    whole = "START TRANSACTION; UPDATE interleave_counter SET hits = hits + 1; COMMIT"
    assert explore_all(*[partial(sql, whole)] * 2, invariant=counter.expect_hits(2)).schedules == 2


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

    schedule = replay("1", copied)  # its last statement alone is a step
    assert schedule.outcomes[0].returned == 1


def test_queries_are_still_logged_with_a_debug_cursor() -> None:
    def logged() -> int:
        connection.force_debug_cursor = True
        counter.naive()
        return len(connection.queries)

    schedule = replay("111", logged)
    assert schedule.outcomes[0].returned == 2
    assert [step.kind for step in schedule.timeline] == ["SELECT", "UPDATE", "COMMIT"]


def test_a_replay_runs_the_steps_in_the_written_order() -> None:
    options = {"observe": counter.hits, "invariant": counter.expect_hits(2)}
    schedule = replay("121122", counter.naive, counter.naive, **options)
    assert (schedule.order, schedule.violation) == ("121122", "hits = 1")
    assert [(step.process, step.kind, step.observed) for step in schedule.timeline] == [
        (1, "SELECT", 0),
        (2, "SELECT", 0),
        (1, "UPDATE", 0),
        (1, "COMMIT", 1),
        (2, "UPDATE", 1),
        (2, "COMMIT", 1),
    ]
    select, _, update, commit, *_ = schedule.timeline
    assert 'FROM "interleave_counter" WHERE' in select.sql
    assert select.params == ("a",)
    assert (select.columns, select.rows) == (("id", "key", "hits"), ((1, "a", 0),))
    assert (update.rowcount, update.rows, update.error) == (1, (), "")
    first = counter.naive.__code__.co_firstlineno
    assert select.filename == update.filename == counter.__file__
    assert (select.lineno, update.lineno, commit.lineno) == (first + 1, first + 3, first + 3)
    assert select.function == "naive"


def test_three_in_a_row_wait_for_the_one_before_them_the_same_ten_times() -> None:
    schedules = [replay("123112233", *[counter.select_for_update] * 3) for _ in range(10)]
    timeline = schedules[0].timeline
    assert {schedule.timeline for schedule in schedules} == {timeline}
    assert [step.waited_for for step in timeline] == [(), (1,), (2,), *[()] * 6]
    assert [step.until for step in timeline[:3]] == [1, 5, 7]
    assert timeline[1].rows == ((1, "a", 1),)


def test_a_replay_does_not_show_names_made_from_the_thread() -> None:
    """Django names savepoints and server-side cursors after the thread."""

    def savepoint_and_cursor() -> None:
        with transaction.atomic(), transaction.atomic():
            list(Counter.objects.order_by("key").iterator())

    schedules = [replay("111111", savepoint_and_cursor) for _ in range(2)]
    assert schedules[0].timeline == schedules[1].timeline
    statements = [step.sql for step in schedules[0].timeline]
    assert statements[0] == 'SAVEPOINT "s1_x1"'
    assert statements[2] == "FETCH FROM _django_curs_1_sync_1"
    kinds = [step.kind for step in schedules[0].timeline]
    assert kinds == ["SAVEPOINT", "SELECT", "FETCH", "FETCH", "RELEASE", "COMMIT"]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("121", "is over before the end of processes 1 and 2: add the missing steps"),
        ("1111", "cannot be taken by process 1: only process 2 can go on"),
        ("9", r"Step 1 of '9' cannot be .* 9: only processes 1 and 2 can go on\.$"),
        ("12z2", "is not a schedule such as 1212"),
        ("12a1122", "The last step of '12a' closes no such deadlock"),
        ("1211223", "goes on after all have ended, at '121122'"),
    ],
)
def test_a_schedule_that_cannot_be_run_is_refused(order: str, message: str) -> None:
    with pytest.raises(ImpossibleSchedule, match=message):
        replay(order, counter.select_for_update, counter.select_for_update)


class Number(int):
    """A subclass of int with another repr(), as psycopg and IntegerChoices have."""

    def __repr__(self) -> str:
        return f"Number({int(self)})"


def test_the_parameters_are_drawn_as_they_are_sent() -> None:
    statement = "SELECT %(number)s, %(text)s", {"number": 3, "text": "it"}
    named = with_cursor(lambda cursor: cursor.execute(*statement))
    process = partial(sql, "SELECT %s, %s, %s, %s", Number(7), 0.5, "it", None)
    (step, other) = replay("12", process, named).timeline
    assert step.statement() == "SELECT 7, 0.5, 'it', NULL"
    assert other.statement() == "SELECT 3, 'it'"


def test_the_first_ten_rows_are_kept() -> None:
    def fetch() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT generate_series(1, 14)")
            cursor.fetchmany(7)
            cursor.fetchmany(7)

    (step,) = replay("1", fetch).timeline
    assert step.rows == tuple((number,) for number in range(1, 11))
    assert step.result() == "→ generate_series = 1 (+13)"


def test_an_error_is_drawn_with_its_line() -> None:
    def fails() -> None:
        sql("SELECT 1")
        raise LookupError("gone")

    line = fails.__code__.co_firstlineno + 2
    drawn = replay("12", lambda: sql("SELECT 1"), fails).draw(width=60)
    assert f"  raises LookupError: gone (test_steps.py:{line})" in drawn


def test_the_timeline_is_drawn_in_columns() -> None:
    process = transaction.atomic(counter.update_returning)
    schedule = replay("1212", process, process, observe=counter.hits)
    place = formatting.format_place(counter.__file__, schedule.timeline[0].lineno)
    drawn = schedule.draw(width=36)
    assert (
        drawn
        == f"""\
   process 1                             process 2                             afterwards
1  UPDATE interleave_counter SET hits =                                        0
     hits + 1 WHERE key = 'a' RETURNING
     hits
   at {place}
   → hits = 1
2                                        UPDATE interleave_counter SET hits =
                                           hits + 1 WHERE key = 'a' RETURNING
                                           hits
                                         at {place}
                                         … waits for process 1
3  COMMIT                                … resumes step 2                      1
                                         → hits = 2
4                                        COMMIT                                2"""
    )


def test_a_wait_that_ends_in_its_own_step_is_drawn_before_its_result() -> None:
    drawn = replay("12121" + "2", partial(lock, 1, 2), partial(lock, 2, 1)).draw()
    lines = [line[45:] for line in drawn.splitlines()]  # of process 2
    assert lines[lines.index("… waits for process 1") + 1] == "!! DeadlockDetected"


@pytest.fixture
def link_table(counter_table: None) -> Iterator[None]:
    """A table with more columns than a drawing shows, and without a column `key`."""
    sql(
        "CREATE TABLE interleave_link AS "
        "SELECT 7 AS id, 'spring' AS slug, 'a.example' AS url, 1 AS owner, 0 AS clicks"
    )
    yield
    sql("DROP TABLE interleave_link")


def test_a_row_is_read_by_its_slug_and_written_by_its_id(link_table: None) -> None:
    """The drawing shows the column that changes, because both statements have the same row."""

    def follow() -> None:
        ((*values, clicks, row_id),) = sql(
            "SELECT slug, url, owner, clicks, id FROM interleave_link WHERE slug = %s", "spring"
        )
        sql(
            "UPDATE interleave_link SET slug = %s, url = %s, owner = %s, clicks = %s WHERE id = %s",
            *[*values, clicks + 1, row_id],
        )

    drawn = replay("121212", follow, follow).draw()
    assert "→ slug = spring, clicks = 0, …" in " ".join(drawn.split())
    assert "SET clicks = 1, … WHERE id = 7" in " ".join(drawn.split())
