"""The sessions with one node, on any PostgreSQL: it takes the same statements with whole tables."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import UTC, datetime

import psycopg2
import pytest
from django.db import connection
from django.db.backends.utils import CursorWrapper
from pytest_django import Settings

from project.citus.cluster_counter import ClusterHitCounter
from project.citus.node_sessions import MAX_SESSIONS, NodeSessions
from project.citus.shard_map import Node, ShardMap
from project.citus.tests.lost_sessions import end_sessions_after_each_statement
from project.serving.connection import Session
from project.serving.hit_counter import FAILURE_SECONDS, MAX_FAILURES, MAX_KEY_STATEMENTS
from project.serving.redirects import Redirects
from shorturl.models import RecentVisits, ShortUrl, Visit
from shorturl.tests.callers import TARGET, create_link

pytestmark = pytest.mark.django_db(transaction=True)

PERSON = Visit(browser="Firefox", is_bot=False)
SHARDS = ShardMap([(-(2**31), 1, 0, "", 0), (0, 2, 0, "", 0)])  # both of this database
LONG_AGO = datetime.min.replace(tzinfo=UTC)
LONG = 30.0  # seconds, many times the longest test
Count = Callable[[NodeSessions], Awaitable[object]]


def close_sessions(sessions: NodeSessions) -> None:
    while not sessions.free.empty():
        sessions.free.get_nowait().close()


def close_counter(counter: ClusterHitCounter) -> None:
    counter.map_task.cancel()
    for sessions in counter.sessions.values():
        close_sessions(sessions)


async def count_by_key(sessions: NodeSessions) -> object:
    return await sessions.count_key("a", [PERSON])


async def count_by_keys(sessions: NodeSessions) -> object:
    return await sessions.count_keys({"a": [PERSON]})


@pytest.mark.parametrize("count", [count_by_key, count_by_keys])
@pytest.mark.parametrize("keep_visits", [True, False], ids=["with visits", "hits alone"])
def test_a_hit_is_not_acknowledged_if_its_session_is_lost_between_the_two_statements(
    settings: Settings, count: Count, *, keep_visits: bool
) -> None:
    """PostgreSQL rolls the UPDATE back. In a new session the rest would be committed alone."""
    create_link("a")
    settings.SHORTURL_VISITS = keep_visits

    async def follow() -> None:
        sessions = NodeSessions(Node())
        for _ in range(MAX_SESSIONS):  # each leaves its session to the next one
            with (
                end_sessions_after_each_statement(),
                pytest.raises(psycopg2.OperationalError, match="lost in a transaction"),
            ):
                await count(sessions)
        assert await count(sessions)  # in a new session
        close_sessions(sessions)

    asyncio.run(asyncio.wait_for(follow(), LONG))
    assert ShortUrl.objects.get().hits == 1
    assert RecentVisits.objects.count() == keep_visits


def test_a_link_that_is_used_up_expired_or_deleted_is_not_counted() -> None:
    create_link("last", max_hits=1)
    create_link("live", max_hits=2)
    create_link("used", hits=2, max_hits=2)
    create_link("over", expires_at=LONG_AGO)
    create_link("gone", deleted_at=LONG_AGO)
    visits = {key: [PERSON] for key in ("last", "live", "used", "over", "gone")}

    async def follow() -> None:
        sessions = NodeSessions(Node())
        assert {*await sessions.count_keys(visits)} == {"last", "live"}
        assert [key for key in visits if await sessions.count_key(key, [PERSON])] == ["live"]
        close_sessions(sessions)

    asyncio.run(asyncio.wait_for(follow(), LONG))
    assert [*ShortUrl.objects.values_list("hits", flat=True).order_by("key")] == [0, 1, 2, 0, 2]


def test_the_log_of_an_outage_names_the_node(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise psycopg2.OperationalError("Connection refused")

    async def follow() -> None:
        await NodeSessions(Node("worker-1", 5432)).count_key("a", [PERSON])

    monkeypatch.setattr(Session, "fetch", refuse)
    with pytest.raises(psycopg2.OperationalError) as caught:
        asyncio.run(follow())
    Redirects(None).log_outage({"path": "/a", "headers": []}, caught.value)
    assert "the database at worker-1:5432 is unavailable: Connection refused" in caplog.text


def fail(*_: object) -> None:
    raise psycopg2.OperationalError("The node is away")


def test_redirects_are_failing_if_those_of_one_shard_fail_and_no_other_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other shard is idle: it neither fails nor answers."""
    keys = {SHARDS.find_shard(key): key for key in "abcd"}
    create_link(keys[1])
    create_link(keys[2])

    async def follow() -> None:
        cluster = ClusterHitCounter([])
        cluster.map = SHARDS
        assert await cluster.count(keys[2], PERSON)
        with monkeypatch.context() as patch:
            patch.setattr(NodeSessions, "count", fail)
            for _ in range(MAX_FAILURES):
                assert not cluster.is_failing()
                with pytest.raises(psycopg2.OperationalError):
                    await cluster.count(keys[1], PERSON)
        assert not cluster.is_failing()  # the other shard has just answered
        cluster.answered_at -= FAILURE_SECONDS
        assert cluster.is_failing()
        assert await cluster.count(keys[2], PERSON)
        assert not cluster.is_failing()
        close_counter(cluster)

    asyncio.run(asyncio.wait_for(follow(), LONG))


def test_redirects_are_failing_in_a_database_that_is_not_distributed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def ask() -> None:
        cluster = ClusterHitCounter([])
        assert await asyncio.to_thread(cluster.is_failing)  # as /readyz does
        close_counter(cluster)

    asyncio.run(asyncio.wait_for(ask(), LONG))
    assert "pg_dist_shard" in caplog.text  # the table that does not exist


def test_locked_keys_of_two_shards_leave_a_session_for_other_keys(settings: Settings) -> None:
    """Each of two shards has as many locked links as a node may have statements for one key."""
    settings.QUEUE_TIMEOUT = 5.0  # shorter than the lock timeout of tests
    keys = [f"key-{number}" for number in range(100)]
    first = [key for key in keys if SHARDS.find_shard(key) == 1][:MAX_KEY_STATEMENTS]
    *second, free = [key for key in keys if SHARDS.find_shard(key) == 2][: MAX_KEY_STATEMENTS + 1]
    locked = [*first, *second]
    ShortUrl.objects.bulk_create(ShortUrl(key=key, target_url=TARGET) for key in (*locked, free))

    async def follow(other: CursorWrapper) -> None:
        other.execute("BEGIN")
        other.execute("SELECT FROM shorturl_shorturl WHERE key = ANY(%s) FOR UPDATE", [locked])
        cluster = ClusterHitCounter([])
        cluster.map = SHARDS
        async with asyncio.TaskGroup() as hits:
            for key in locked:
                hits.create_task(cluster.count(key, PERSON))
            while sum(len(counter.key_tasks) for counter in cluster.counters.values()) < len(
                locked
            ):
                await asyncio.sleep(0)  # until all are known to be locked
            row = await cluster.count(free, PERSON)
            assert row is not None
            assert row.key == free
            other.execute("ROLLBACK")
        close_counter(cluster)

    with closing(connection.copy()) as other_session, other_session.cursor() as cursor:
        asyncio.run(asyncio.wait_for(follow(cursor), LONG))
