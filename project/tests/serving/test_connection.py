"""A session on the event loop: prepared statements, its time limit, and its end."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import psycopg2
import pytest
import uvloop
from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from project.serving.connection import Session, Statement

pytestmark = pytest.mark.django_db(transaction=True)

LONG = 30.0  # seconds, many times the longest test
SLEEP = Statement("sleep", sql.SQL("SELECT pg_backend_pid(), pg_sleep(%s)"), ["float8"])
TEXT = Statement("text", sql.SQL("SELECT repeat(%s, %s)"), ["text", "integer"])
PLANS = Statement(
    "plans",
    sql.SQL("SELECT name, generic_plans, custom_plans FROM pg_prepared_statements WHERE name = %s"),
    ["text"],
)
STATEMENTS = [SLEEP, TEXT, PLANS]


@asynccontextmanager
async def session(**options: Any) -> AsyncIterator[Session]:
    opened = Session(STATEMENTS, **{"timeout": LONG, **options})
    try:
        yield opened
    finally:
        opened.close()


@pytest.fixture(params=[asyncio.run, uvloop.run])
def run(request: pytest.FixtureRequest) -> Any:
    """Run a test on asyncio's event loop, and on that of the service."""

    def start(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
        request.param(asyncio.wait_for(test(), LONG))

    return start


def terminate(pid: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])
    connection.close()


def test_statements_are_planned_once_in_a_session(run: Any) -> None:
    async def test() -> None:
        async with session() as one:
            for _ in range(3):
                await one.fetch(SLEEP, [0])
            assert await one.fetch(PLANS, ["sleep"]) == [("sleep", 3, 0)]

    run(test)


def test_behind_a_pooler_nothing_is_prepared(run: Any) -> None:
    async def test() -> None:
        async with session(prepares=False) as one:
            await one.fetch(SLEEP, [0])
            assert await one.fetch(PLANS, ["sleep"]) == []

    run(test)


def test_sessions_wait_at_the_same_time(run: Any) -> None:
    async def test() -> None:
        async with session() as one, session() as other:
            slow = asyncio.create_task(one.fetch(SLEEP, [LONG]))
            assert await other.fetch(SLEEP, [0])
            assert not slow.done()
            slow.cancel()
            await asyncio.wait([slow])

    run(test)


def test_long_statements_and_answers_arrive(run: Any) -> None:
    """They take several waits for the socket, to write and to read."""

    async def test() -> None:
        async with session(prepares=False) as one:
            ((text,),) = await one.fetch(TEXT, ["é" * 4_000_000, 4])
            assert text == "é" * 16_000_000

    run(test)


def test_a_statement_ends_at_its_time_limit_and_with_it_the_session(run: Any) -> None:
    async def test() -> None:
        async with session() as one:
            ((first, _),) = await one.fetch(SLEEP, [0])
            one.timeout = 0.05
            with pytest.raises(TimeoutError):
                await one.fetch(SLEEP, [LONG])
            one.timeout = LONG
            ((second, _),) = await one.fetch(SLEEP, [0])
            assert second != first  # or the answer could be that of the statement before

    run(test)


def test_an_error_ends_the_session(run: Any) -> None:
    async def test() -> None:
        async with session() as one:
            with pytest.raises(psycopg2.Error, match="invalid input syntax"):
                await one.fetch(SLEEP, ["x"])
            assert one.connection is None
            assert await one.fetch(SLEEP, [0])

    run(test)


@pytest.mark.parametrize("is_watched", [True, False])
def test_a_session_that_postgresql_has_closed_is_opened_again(run: Any, is_watched: bool) -> None:
    """Otherwise the first hits after a restart would be refused."""

    async def test() -> None:
        async with session() as one:
            ((first, _),) = await one.fetch(SLEEP, [0])
            if not is_watched:  # uvloop stops watching after an error
                one.loop.remove_reader(one.socket)
            await asyncio.to_thread(terminate, first)
            while is_watched and one.connection is not None:
                await asyncio.sleep(0)
            ((second, _),) = await one.fetch(SLEEP, [0])
            assert second != first

    run(test)
