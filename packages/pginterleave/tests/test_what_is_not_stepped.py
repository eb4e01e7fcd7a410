"""The result names what is not a step of its own; unobserved statements prove nothing."""

import asyncio
import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections, transaction
from django.db.backends.postgresql.psycopg_any import is_psycopg3

from pginterleave import Outcome

from . import counter
from .counter import Process, explore_all, parameters, replay, sql

pytestmark = pytest.mark.usefixtures("counter_table")


COUNT = "UPDATE interleave_counter SET hits = hits + 1"


def close_then(function: Process) -> None:
    try:
        function()
    finally:
        connections.close_all()


def by_a_pool() -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(close_then, counter.naive).result()


def by_asyncio() -> None:
    asyncio.run(sync_to_async(close_then, thread_sensitive=False)(counter.naive))


def by_the_driver() -> None:
    """Write without Django."""
    driver: Any = connection
    with closing(driver.Database.connect(**parameters())) as own:
        for _ in range(20):
            own.cursor().execute(COUNT)
        own.commit()


@pytest.mark.parametrize(
    ("process", "sender"),
    [
        (by_a_pool, "a connection that the thread 'ThreadPoolExecutor-"),
        (by_asyncio, "a connection that the thread 'asyncio_"),
        (by_the_driver, "a connection that the thread 'process 1' has opened"),
    ],
)
def test_unobserved_statements_prove_nothing(process: Process, sender: str) -> None:
    """Also if no others are sent."""
    found = explore_all(process, process, expected=())
    assert not found.complete
    assert f"Statements were sent past the explorer, by {sender}" in str(found)
    with pytest.raises(AssertionError, match=r"Not proven: .* were sent past the explorer"):
        found.assert_safe()


def by_a_driver_cursor() -> None:
    with connection.cursor() as cursor:
        cursor.cursor.execute(COUNT)


def before_the_first_step() -> None:
    with transaction.atomic():
        connection.ensure_connection()
        with connection.connection.cursor() as cursor:
            cursor.execute(COUNT)


def by_a_cursor_of_another_class() -> None:
    django: Any = connection
    if is_psycopg3:
        django.Database.ClientCursor(django.connection).execute(COUNT)
    else:
        dicts = django.Database.extras.DictCursor
        django.connection.cursor(cursor_factory=dicts).execute(COUNT)


def by_a_named_cursor() -> None:
    with transaction.atomic(), connection.connection.cursor("named") as cursor:
        cursor.execute("SELECT hits FROM interleave_counter")


def by_a_commit() -> None:
    with transaction.atomic():
        counter.update_returning()
        connection.connection.commit()


def by_closing() -> None:
    connection.connection.close()


def by_copy() -> None:
    with connection.cursor() as cursor:
        if is_psycopg3:
            with cursor.cursor.copy("COPY interleave_counter FROM STDIN") as copy:
                copy.write_row((3, "c", 0))
        else:
            cursor.cursor.copy_expert("COPY interleave_counter FROM STDIN", io.StringIO("3\tc\t0"))


USES = [by_a_driver_cursor, by_a_cursor_of_another_class, by_a_named_cursor, by_a_commit]


@pytest.mark.parametrize("process", [*USES, before_the_first_step, by_closing, by_copy])
def test_a_use_of_the_drivers_connection_is_named_with_its_place(process: Process) -> None:
    """Django has no hook there, so it is no step, and proves nothing."""
    found = explore_all(process, process)
    assert found.unobserved
    for each in found.unobserved:
        assert each.startswith("the driver's connection at ")
        assert process.__name__ in each
    assert not found.complete


def test_other_threads_may_run_in_setup_and_in_the_invariant() -> None:
    def setup() -> None:
        counter.setup()
        by_a_pool()

    invariant = {"invariant": lambda outcomes: by_a_pool()}
    explore_all(*[counter.update_returning] * 2, setup=setup, **invariant).assert_safe()


TABLES = """
    CREATE FUNCTION take(it interleave_counter) RETURNS int LANGUAGE sql AS
        'UPDATE interleave_counter SET hits = hits + 1 WHERE id = $1.id RETURNING hits';
    CREATE VIEW busy AS SELECT count(*) AS locks FROM pg_locks JOIN pg_database
        ON oid = database AND datname = current_database() WHERE locktype = 'advisory'
"""


def test_several_statements_in_one_step_are_named() -> None:
    def process() -> None:
        sql("UPDATE interleave_counter SET hits = 1; SELECT 1")
        sql("DO $$ BEGIN PERFORM 1; END $$")
        with connection.cursor() as cursor:
            cursor.executemany("UPDATE interleave_counter SET hits = %s", [(1,), (2,)])

    assert explore_all(process).limits == (
        "several statements in one execute() are one step: "
        "UPDATE interleave_counter SET hits = 1; SELECT 1",
        "the statements in DO are one step, with their COMMIT",
        "what executemany() sends is one step",
    )
    assert explore_all(counter.select_for_update).limits == ()


INSERT_UNLESS = """INSERT INTO interleave_counter SELECT {0}, '{0}', 7
    WHERE NOT EXISTS (SELECT FROM interleave_counter WHERE hits = 7)"""


def insert_many(number: int) -> None:
    with connection.cursor() as cursor:
        cursor.executemany(INSERT_UNLESS.format("%(id)s"), [{"id": number}, {"id": number + 2}])


@pytest.mark.parametrize(
    "send",
    [
        insert_many,
        lambda number: sql(f"DO $$ BEGIN {INSERT_UNLESS.format(number)}; END $$"),
        lambda number: sql(f"{INSERT_UNLESS.format(number)}; SELECT 1"),
        lambda number: sql(f"BEGIN; {INSERT_UNLESS.format(number)}; COMMIT"),
    ],
    ids=["executemany", "DO", "several", "BEGIN to COMMIT"],
)
def test_a_commit_within_a_step_proves_nothing(send: Callable[[int], Any]) -> None:
    """With each of these, threads may insert two rows, and no schedule does."""
    processes = [partial(send, number) for number in (5, 6)]
    found = explore_all(*processes, invariant=counter.anything, setup=counter.setup)
    assert found.unseen_commits
    assert not found.complete
    with pytest.raises(AssertionError, match=r"Not proven: .* into a transaction: "):
        found.assert_safe()


def test_in_a_transaction_no_commit_is_unseen() -> None:
    @transaction.atomic
    def process() -> None:
        insert_many(5)
        sql("UPDATE interleave_counter SET hits = 1; SELECT 1")

    assert explore_all(process).unseen_commits == ()


@transaction.atomic
def take() -> int:
    return int(sql("SELECT t.take FROM interleave_counter AS t WHERE id = 1")[0][0])


def sees_a_lock() -> bool:
    return bool(sql("SELECT xmax != '0'::xid FROM interleave_counter WHERE id = 1")[0][0])


def sees_busy() -> bool:
    return bool(sql("SELECT locks FROM busy")[0][0])


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("processes", "violating", "schedules"),
    [
        ([take, take], 2, 4),
        ([counter.select_for_update, sees_a_lock], 3, 4),
        ([partial(counter.lock, 1), sees_busy], 2, 6),
    ],
)
def test_a_select_that_writes_or_reads_locks_is_no_plain_read(
    processes: list[Process], violating: int, schedules: int
) -> None:
    def nothing_seen(outcomes: list[Outcome]) -> str:
        return "seen" if outcomes[1].returned in (True, 1) and outcomes[0].returned != 1 else ""

    for reduce in (False, True):
        found = explore_all(*processes, invariant=nothing_seen, reduce=reduce)
        assert (found.violating, found.schedules) == (violating, schedules)


def test_a_transaction_that_is_left_open_with_its_level_ends_with_the_process() -> None:
    """The next schedule must not read with its snapshot."""

    def left_open() -> int:
        sql("BEGIN ISOLATION LEVEL REPEATABLE READ")
        counter.update_returning()
        return counter.hits()

    found = explore_all(left_open, counter.hits, invariant=lambda each: str(each[0].returned))
    assert found.schedules == 4
    assert {each.violation for each in found.violations} == {"1"}


def test_a_custom_setting_and_notifications_do_not_reach_the_next_schedule() -> None:
    def process() -> list[Any]:
        driver = connection.connection
        before = sql("SELECT current_setting('own.setting', true)")
        heard = [] if is_psycopg3 else list(driver.notifies)
        sql("SELECT set_config('own.setting', '1', false)")
        sql("LISTEN heard; NOTIFY heard")
        return [before, heard]

    found = explore_all(process, counter.hits, invariant=lambda each: str(each[0].returned))
    assert (len(found.violations) > 1, found.complete) == (True, True), found
    assert {each.violation for each in found.violations} == {"[[(None,)], []]"}


@pytest.mark.skipif(not is_psycopg3, reason="psycopg2's COPY is a call, without a block")
def test_a_copy_is_one_step_with_its_block() -> None:
    def copy() -> int:
        with connection.cursor() as cursor:
            with cursor.copy("COPY interleave_counter FROM STDIN") as copying:
                copying.write("3\tc\t0\n4\td\t0\n")
            return int(cursor.rowcount)

    schedule = replay("112", copy, counter.hits)
    assert [step.kind for step in schedule.timeline] == ["COPY", "COMMIT", "SELECT"]
    found = explore_all(copy, lambda: counter.Counter.objects.count(), invariant=lambda _: "shown")
    assert [each.outcomes[1].returned for each in found.violations] == [4, 2, 2]
    assert found.schedules == 3


def prepares() -> None:
    with transaction.atomic():
        counter.update_returning()
        sql("PREPARE TRANSACTION 'interleave'")
    sql("COMMIT PREPARED 'interleave'")


def test_a_prepared_transaction_is_waited_for() -> None:
    if sql("SHOW max_prepared_transactions") == [("0",)]:
        pytest.skip("the server has no prepared transactions")
    explore_all(prepares, counter.update_returning, invariant=counter.expect_hits(2)).assert_safe()
    timeline = replay("11212", prepares, counter.update_returning).timeline
    assert any(step.waited_for for step in timeline)
