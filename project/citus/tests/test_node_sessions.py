"""The sessions with one node, on any PostgreSQL: it takes the same statements with whole tables."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing

import psycopg2
import pytest
from django.db import connection
from django.db.backends.utils import CursorWrapper
from pytest_django import Settings

from project.citus.cluster_counter import ClusterHitCounter
from project.citus.node_sessions import NodeSessions
from project.citus.shard_map import Node, ShardMap
from project.citus.tests.lost_sessions import end_sessions_after_each_statement
from project.serving.hit_counter import MAX_KEY_STATEMENTS
from shorturl.models import RecentVisits, ShortUrl, Visit
from shorturl.tests.callers import TARGET, create_link

pytestmark = pytest.mark.django_db(transaction=True)

PERSON = Visit(browser="Firefox", is_bot=False)
LONG = 30.0  # seconds, many times the longest test
Count = Callable[[NodeSessions], Awaitable[object]]


def close_sessions(sessions: NodeSessions) -> None:
    while not sessions.free.empty():
        sessions.free.get_nowait().close()


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


def test_locked_keys_of_two_shards_leave_a_session_for_other_keys(settings: Settings) -> None:
    """Each of two shards has as many locked links as a node may have statements for one key."""
    settings.QUEUE_TIMEOUT = 5.0  # shorter than the lock timeout of tests
    shards = ShardMap([(-(2**31), 1, 0, "", 0), (0, 2, 0, "", 0)])  # both of this database
    keys = [f"key-{number}" for number in range(100)]
    first = [key for key in keys if shards.find_shard(key) == 1][:MAX_KEY_STATEMENTS]
    *second, free = [key for key in keys if shards.find_shard(key) == 2][: MAX_KEY_STATEMENTS + 1]
    locked = [*first, *second]
    ShortUrl.objects.bulk_create(ShortUrl(key=key, target_url=TARGET) for key in (*locked, free))

    async def follow(other: CursorWrapper) -> None:
        other.execute("BEGIN")
        other.execute("SELECT FROM shorturl_shorturl WHERE key = ANY(%s) FOR UPDATE", [locked])
        cluster = ClusterHitCounter([])
        cluster.map = shards
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
        cluster.map_task.cancel()
        for sessions in cluster.sessions.values():
            close_sessions(sessions)

    with closing(connection.copy()) as other_session, other_session.cursor() as cursor:
        asyncio.run(asyncio.wait_for(follow(cursor), LONG))
