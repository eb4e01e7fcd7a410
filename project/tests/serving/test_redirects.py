"""What the event loop answers when PostgreSQL does not count a hit, or not yet."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from typing import Any
from unittest.mock import AsyncMock, Mock

import psycopg2
import pytest
from django.db import DEFAULT_DB_ALIAS, connection
from django.db.backends.postgresql.base import DatabaseWrapper
from django.test import Client
from pytest_django import Settings

from project.serving.connection import Session
from project.serving.hit_counter import HitCounter
from project.serving.redirects import CountingSessions, Redirects
from project.tests.conftest import Answer
from shorturl.exceptions import RowLocked
from shorturl.models import RecentVisits, ShortUrl, Visit
from shorturl.tests.callers import create_link

LONG = 30.0  # seconds, many times the longest test
SCOPE = {"type": "http", "method": "GET", "scheme": "http", "path": "/a", "client": None}
PERSON = Visit(is_bot=False)
MANY = 100  # hits of each link


async def follow(redirects: Redirects, query: bytes = b"") -> Answer:
    """Return the response to a request for a short URL."""
    send = AsyncMock()
    scope = {**SCOPE, "headers": [(b"host", b"localhost")], "query_string": query}
    await redirects(scope, AsyncMock(), send)
    start, *parts = (call.args[0] for call in send.call_args_list)
    body = b"".join(part.get("body", b"") for part in parts)
    return Answer(start["status"], dict(start["headers"]), body)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (TimeoutError(), b"Too many requests at the moment"),
        (RowLocked("a"), b"Too many requests follow this short URL"),
        (psycopg2.OperationalError("gone"), b"The database is not answering"),
    ],
)
def test_a_hit_that_is_not_counted_is_a_503_and_is_not_handed_to_django(
    error: Exception, message: bytes
) -> None:
    """Django would count it, or wait once more."""
    django = Mock()
    redirects = Redirects(django)
    redirects.counter = Mock(count=AsyncMock(side_effect=error))
    answer = asyncio.run(follow(redirects))
    assert (answer.status, answer.headers[b"retry-after"]) == (503, b"1")
    assert message in answer.body
    assert not django.called


def test_any_byte_of_a_forwarded_query_is_redirected_after_the_hit_was_counted() -> None:
    redirects = Redirects(None)
    row = Mock(target_url="https://example.com/", forward_query=True)
    redirects.counter = Mock(count=AsyncMock(return_value=row))
    assert asyncio.run(follow(redirects, query=b"a=\xff")).status == 302


def test_a_database_that_accepts_connections_and_is_silent_is_a_503_at_the_time_limit(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DATABASE_REQUEST_TIMEOUT = 0.2
    silent = socket.create_server(("127.0.0.1", 0))
    address = dict(zip(("HOST", "PORT"), silent.getsockname(), strict=True))
    database = DatabaseWrapper({**connection.settings_dict, **address})
    monkeypatch.setattr("project.serving.connection.connections", {DEFAULT_DB_ALIAS: database})

    async def test() -> None:
        with silent:  # its end refuses whoever still waits
            answer = await asyncio.wait_for(follow(Redirects(None)), LONG)
            assert answer.status == 503
            with pytest.raises(psycopg2.OperationalError):  # so that no thread waits for ever
                await asyncio.wait_for(asyncio.to_thread(Session().connect), LONG)

    asyncio.run(test())


def run_with_counter(test: Callable[[HitCounter], Awaitable[None]]) -> None:
    """Run a test with a counter that sends the service's own statements."""

    async def run() -> None:
        sessions = CountingSessions()
        counter = HitCounter(sessions.count_keys, sessions.count_key, queue_timeout=LONG)
        try:
            await asyncio.wait_for(test(counter), LONG)
        finally:
            for session in sessions.free:
                session.close()

    asyncio.run(run())


def count_at_once(counter: HitCounter, *keys: str) -> "list[asyncio.Task[Any]]":
    return [asyncio.create_task(counter.count(key, PERSON)) for key in keys]


@pytest.mark.django_db(transaction=True)
def test_of_two_hits_one_gets_the_last_use_and_another_link_its_redirect() -> None:
    for key, max_hits in {"limited": 1, "other": None}.items():
        create_link(key, max_hits=max_hits)

    async def test(counter: HitCounter) -> None:
        *rows, other = await asyncio.gather(*count_at_once(counter, "limited", "limited", "other"))
        assert other.key == "other"
        assert [row is None for row in rows].count(True) == 1

    run_with_counter(test)
    assert {*ShortUrl.objects.values_list("hits", flat=True)} == {1}


@pytest.mark.django_db(transaction=True)
def test_without_visits_hits_are_counted_and_no_visit_is_recorded(settings: Settings) -> None:
    settings.SHORTURL_VISITS = False
    for key in "ab":
        create_link(key)

    async def test(counter: HitCounter) -> None:
        for keys in ("a", "ab"):  # by a statement for one key, and by one for several
            assert None not in await asyncio.gather(*count_at_once(counter, *keys))

    run_with_counter(test)
    assert Client().get("/b").status_code == 302  # Django's own way
    assert [*ShortUrl.objects.values_list("hits", flat=True)] == [2, 2]
    assert not RecentVisits.objects.exists()


@pytest.fixture
def unlock(transactional_db: None) -> Iterator[Callable[[], None]]:
    """Lock the row of the link `a` beside those of `b` and `c`; return what ends the lock."""
    for key in "abc":
        create_link(key)
    with closing(connection.copy()) as session, session.cursor() as cursor:
        cursor.execute("BEGIN; SELECT FROM shorturl_shorturl WHERE key = 'a' FOR UPDATE")
        yield lambda: cursor.execute("ROLLBACK")


def test_a_locked_link_is_refused_soon(
    unlock: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = connection.settings_dict["OPTIONS"]
    monkeypatch.setitem(options, "options", f"{options['options']} -c lock_timeout=500ms")

    async def test(counter: HitCounter) -> None:
        (refused,) = count_at_once(counter, "a")
        with pytest.raises(RowLocked):
            await refused
        unlock()
        (again,) = count_at_once(counter, "a")
        assert (await again).key == "a"

    run_with_counter(test)


def test_other_links_are_counted_again_and_again_while_one_is_locked(
    unlock: Callable[[], None],
) -> None:
    """Also while hits of the locked link go on coming, which share one wait."""

    async def test(counter: HitCounter) -> None:
        locked = []
        for _ in range(MANY):
            locked += count_at_once(counter, "a")
            others = await asyncio.gather(*count_at_once(counter, "b", "c"))
            assert [row.key for row in others] == ["b", "c"]
        assert not any(hit.done() for hit in locked)
        unlock()
        assert {row.key for row in await asyncio.gather(*locked)} == {"a"}

    run_with_counter(test)
    assert {*ShortUrl.objects.values_list("key", "hits")} == {(key, MANY) for key in "abc"}
