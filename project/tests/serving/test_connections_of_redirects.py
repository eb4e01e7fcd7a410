"""The database connections of redirects, which wait on the event loop."""

import asyncio
import os
import socket
import struct
from collections.abc import Iterator
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop
from django.db import connection, connections
from django.db.backends.utils import CursorWrapper
from psycopg2 import OperationalError, extensions

from project.database import deadlines
from project.database.greenlets import Greenlets, current
from project.serving.redirects import session

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def as_served(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the deadline and allow statements on the event loop, as in a worker."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "on")
    before = extensions.get_wait_callback()
    deadlines.install()
    yield
    extensions.set_wait_callback(before)


def sleep(seconds: float, cursor: CursorWrapper) -> int:
    cursor.execute("SELECT pg_backend_pid() FROM pg_sleep(%s)", [seconds])
    return int(cursor.fetchone()[0])


def close(greenlets: Greenlets) -> None:
    for each in greenlets.free:
        each.gr_context.run(connections.close_all)
        each.forget()


def test_a_connection_that_is_too_old_is_closed_after_the_statement() -> None:
    async def test() -> None:
        greenlets = Greenlets(session)
        for close_at, is_open in (None, True), (0.0, False):
            await greenlets.run(lambda at, _: setattr(connection, "close_at", at), close_at)
            (here,) = greenlets.free
            found = here.gr_context.run(getattr, connection, "connection")
            assert (found is not None) is is_open

    asyncio.run(test())


def test_a_cursor_is_kept_as_long_as_its_connection() -> None:
    async def test() -> None:
        greenlets = Greenlets(session)
        first = await greenlets.run(lambda cursor: cursor)
        assert await greenlets.run(lambda cursor: cursor) is first
        (here,) = greenlets.free
        here.gr_context.run(connections.close_all)
        second = await greenlets.run(lambda cursor: cursor)
        assert second.connection is not first.connection
        close(greenlets)

    asyncio.run(test())


def test_statements_run_at_once_on_connections_that_are_reused() -> None:
    async def test() -> None:
        greenlets = Greenlets(session)
        several = [greenlets.run(sleep, 0.1) for _ in range(4)]
        assert not any(each.done() for each in several)  # the loop has waited for none of them
        pids = await asyncio.gather(*several)
        assert len({*pids}) == 4
        assert await greenlets.run(sleep, 0) in pids
        close(greenlets)

    asyncio.run(test())


def test_a_statement_on_the_loop_ends_at_its_deadline(settings: Any) -> None:
    async def test() -> None:
        greenlets = Greenlets(session)
        settings.DATABASE_REQUEST_TIMEOUT = 0.2
        with pytest.raises(Exception, match="has not answered within") as raised:
            await greenlets.run(sleep, 2)
        assert isinstance(raised.value.__cause__, OperationalError)
        (here,) = greenlets.free
        with pytest.raises(OSError, match="Bad file"):  # or PostgreSQL would not see the end
            os.fstat(here.socket)
        settings.DATABASE_REQUEST_TIMEOUT = 10
        assert await greenlets.run(sleep, 0)
        close(greenlets)

    asyncio.run(test())


def test_an_idle_connection_that_postgresql_closes_is_no_longer_watched() -> None:
    async def test() -> None:
        greenlets = Greenlets(session)
        first = await greenlets.run(sleep, 0.01)
        (here,) = greenlets.free
        os.fstat(here.socket)  # is open
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [first])
        while here.connection:
            await asyncio.sleep(0)
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(here.socket)
        assert await greenlets.run(sleep, 0.01) != first
        os.fstat(here.socket)
        close(greenlets)
        connections.close_all()

    asyncio.run(asyncio.wait_for(test(), 30))


def test_a_thread_has_the_context_of_its_greenlet() -> None:
    """Which has the time limit, so that connecting does not begin another one."""
    limit: ContextVar[int] = ContextVar("limit")

    def read() -> list[int]:
        here = current()
        assert here
        limit.set(5)
        found: list[int] = []
        here.in_thread(lambda: found.append(limit.get()))
        return found

    async def test() -> None:
        assert await Greenlets(lambda _: lambda function: function()).run(read) == [5]

    asyncio.run(test())


def test_a_closed_connection_that_is_no_longer_watched_is_replaced() -> None:
    """The watch ends with an error of the socket, which may arrive with the last answer."""

    async def test() -> None:
        greenlets = Greenlets(session)
        first = await greenlets.run(sleep, 0)
        (here,) = greenlets.free
        here.loop.remove_reader(here.socket)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [first])
        assert await greenlets.run(sleep, 0) != first
        close(greenlets)
        connections.close_all()

    asyncio.run(asyncio.wait_for(test(), 30))


def test_an_error_of_the_socket_is_read_at_once() -> None:
    """After an error uvloop stops watching, and psycopg2 may ask for more than one read."""

    async def test() -> None:
        greenlets = Greenlets(lambda _: lambda function: function())
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname()) as client,
        ):
            peer, _ = server.accept()
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()  # with a reset
            of_client = SimpleNamespace(fileno=client.fileno, closed=0)

            def read() -> list[bool]:
                here = current()
                assert here
                return [here.readable(of_client, 5) for _ in range(3)]

            assert await greenlets.run(read) == [True, True, True]
            greenlets.free[0].forget()

    uvloop.run(test())
