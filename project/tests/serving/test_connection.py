"""A session on the event loop: prepared statements, its time limit, and its end."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any

import psycopg2
import pytest
import uvloop
from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql
from pytest_django import Settings

from project.serving.connection import Session

pytestmark = pytest.mark.django_db(transaction=True)

LONG = 30.0  # seconds, many times the longest test
SLEEP = sql.SQL("SELECT pg_backend_pid(), pg_sleep(%s)")
SLEEPING = sql.SQL("SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'")
REPEAT = sql.SQL("SELECT repeat(%s, %s)")
PLANS = sql.SQL("SELECT name, generic_plans, custom_plans FROM pg_prepared_statements")
Test = Callable[[Session], Coroutine[Any, Any, None]]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Any:
    """Return a function that runs a test with a session, on an event loop of this kind."""

    def run(test: Test) -> None:
        async def run_with_session() -> None:
            with closing(Session()) as session:
                await asyncio.wait_for(test(session), LONG)

        request.param(run_with_session())

    return run


def terminate(pid: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])  # waits 10 s for its end
    connection.close()


# The plans are rows of PLANS: three executions had the generic plan, none a plan of its own.
@pytest.mark.parametrize(("pooler", "plans"), [("none", [("sleep", 3, 0)]), ("transaction", [])])
def test_statements_are_planned_once_in_a_session_and_not_prepared_behind_a_pooler(
    run: Any, settings: Settings, pooler: str, plans: list[Any]
) -> None:
    settings.DATABASE_POOLER = pooler

    async def test(session: Session) -> None:
        for _ in range(3):
            await session.fetch(SLEEP, [0], name="sleep")
        assert await session.fetch(PLANS, []) == plans

    run(test)


def test_sessions_wait_at_the_same_time(run: Any) -> None:
    async def test(session: Session) -> None:
        slow = asyncio.create_task(session.fetch(SLEEP, [LONG]))
        with closing(Session()) as other:
            assert await other.fetch(SLEEP, [0])
        assert not slow.done()
        slow.cancel()
        await asyncio.wait([slow])

    run(test)


def test_long_statements_and_answers_arrive(run: Any) -> None:
    """They take several waits for the socket, to write and to read."""

    async def test(session: Session) -> None:
        ((text,),) = await session.fetch(REPEAT, ["é" * 4_000_000, 4])
        assert text == "é" * 16_000_000

    run(test)


def test_a_statement_ends_at_its_time_limit_and_with_it_the_session(
    run: Any, settings: Settings
) -> None:
    """Otherwise the next answer could be that of the statement before."""

    async def test(session: Session) -> None:
        ((first_pid, _),) = await session.fetch(SLEEP, [0])
        settings.DATABASE_REQUEST_TIMEOUT = 0.05
        with pytest.raises(TimeoutError):
            await session.fetch(SLEEP, [LONG])
        settings.DATABASE_REQUEST_TIMEOUT = LONG
        ((second_pid, _),) = await session.fetch(SLEEP, [0])
        assert second_pid != first_pid

    run(test)


def test_the_statement_after_a_cancelled_one_returns_its_own_row(run: Any) -> None:
    """A client leaves while its statement waits. The session has a statement under way then."""

    async def test(session: Session) -> None:
        ((pid, _),) = await session.fetch(SLEEP, [0])
        left = asyncio.create_task(session.fetch(SLEEP, [LONG]))
        with closing(Session()) as other:
            while not await other.fetch(SLEEPING, [pid]):
                await asyncio.sleep(0)
        left.cancel()
        await asyncio.wait([left])
        assert await session.fetch(REPEAT, ["its own ", 2]) == [("its own its own ",)]

    run(test)


def test_the_statement_after_an_error_or_a_terminated_session_connects_again(run: Any) -> None:
    """Otherwise the first hits after a restart would be refused."""

    async def test(session: Session) -> None:
        ((first_pid, _),) = await session.fetch(SLEEP, [0], name="sleep")
        with pytest.raises(psycopg2.Error, match="invalid input syntax"):
            await session.fetch(SLEEP, ["x"], name="sleep")
        ((second_pid, _),) = await session.fetch(SLEEP, [0], name="sleep")
        await asyncio.to_thread(terminate, second_pid)
        ((third_pid, _),) = await session.fetch(SLEEP, [0], name="sleep")
        assert len({first_pid, second_pid, third_pid}) == 3

    run(test)


def test_the_next_statement_of_a_transaction_whose_session_was_terminated_raises(run: Any) -> None:
    """Otherwise it would be committed alone, in a new session."""

    async def test(session: Session) -> None:
        ((pid, _),) = await session.fetch(sql.SQL("BEGIN; ") + SLEEP, [0])
        await asyncio.to_thread(terminate, pid)
        with pytest.raises(psycopg2.OperationalError, match="lost in a transaction"):
            await session.fetch(SLEEP, [0])
        assert await session.fetch(SLEEP, [0])

    run(test)
