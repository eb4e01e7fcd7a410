"""Where keys are is remembered; and a frozen node of two takes no redirect from the other one."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

import psutil
import pytest
from django.db import IntegrityError, connection
from django.test.utils import CaptureQueriesContext

from loadtests.harness.own_postgres import OwnPostgres, own_postgres
from project.database import nodes_of_keys as places
from project.database.nodes_of_keys import Places
from project.serving import waiting_hits as waiting
from project.serving.waiting_hits import Waiting
from shorturl import operations

# The catalogue and the function that are asked; here, a key of one letter is on node 1.
CATALOGUE = """
    CREATE TEMP TABLE pg_dist_placement AS
        SELECT node AS shardid, node AS groupid FROM generate_series(1, 2) AS node;
    CREATE FUNCTION pg_temp.by_length(regclass, text) RETURNS int LANGUAGE sql
        AS 'SELECT length($2)'
"""
COUNTERS = """
    CREATE TABLE counter (key text PRIMARY KEY, hits int NOT NULL);
    INSERT INTO counter SELECT name || number, 0
    FROM unnest(ARRAY['live', 'frozen']) AS name, generate_series(0, 9) AS number
"""
CLIENTS, TIMES = 8, 50
HIT = "UPDATE counter SET hits = hits + %s WHERE key = %s RETURNING hits"


@pytest.mark.django_db
def test_a_place_is_looked_up_once_and_anew_after_a_failure_and_after_some_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function = "get_shard_id_for_distribution_column"
    monkeypatch.setattr(places, "LOOK_UP", places.LOOK_UP.replace(function, "pg_temp.by_length"))
    with connection.cursor() as cursor:
        cursor.execute(CATALOGUE)
    known = Places()

    def looks(*keys: str) -> int:
        with CaptureQueriesContext(connection) as sent:
            assert known.look_up(dict.fromkeys(keys)) == {}
        return len(sent)

    assert known.of("a") is None
    assert looks("a", "bb") == 1
    assert (known.of("a"), known.of("bb")) == (1, 2)
    assert looks("a", "bb") == 0

    def fail(*_: object) -> None:
        raise IntegrityError

    monkeypatch.setattr(operations, "follow_often", fail)
    with pytest.raises(IntegrityError):
        known.follow_often("a", [])
    assert (known.of("a"), known.of("bb")) == (None, 2)
    assert looks("a", "bb") == 1
    monkeypatch.setattr(known, "until", time.monotonic() - 1)
    assert looks("a") == 1
    assert known.of("bb") is None


class Nodes:
    """Two servers, "live" and "frozen", with the keys that begin so, behind a Waiting."""

    def __init__(self, servers: Mapping[str, OwnPostgres], stack: ExitStack) -> None:
        self.sessions: dict[str, list[Any]] = {}
        for name, server in servers.items():
            opened = [stack.enter_context(closing(server.connect())) for _ in range(waiting.ALONE)]
            for session in opened:
                session.autocommit = True
            with opened[0].cursor() as cursor:
                cursor.execute(COUNTERS)
            self.sessions[name] = opened
        self.waiting = Waiting(
            lambda keys: {}, self.count, most_keys=64, patience=60.0, place=self.place
        )

    def place(self, key: str) -> str:
        return key[:-1]

    def count(self, key: str, hits: Sequence[Any]) -> list[int]:
        sessions = self.sessions[self.place(key)]
        session = sessions.pop()
        try:
            with session.cursor() as cursor:
                cursor.execute(HIT, [len(hits), key])
                return [cursor.fetchone()[0]] * len(hits)
        finally:
            sessions.append(session)

    def counted(self, name: str) -> int:
        with self.sessions[name][0].cursor() as cursor:
            cursor.execute("SELECT sum(hits) FROM counter WHERE key LIKE %s", [f"{name}%"])
            return int(cursor.fetchone()[0])

    async def follow(self, *names: str, times: int = TIMES) -> float:
        """Have a client for each key of these nodes follow it so often; return hits per second."""

        async def client(key: str) -> None:
            for _ in range(times):
                await self.waiting.add(key, None)

        begun = time.monotonic()
        await asyncio.gather(*(client(f"{name}{key}") for name in names for key in range(CLIENTS)))
        return len(names) * CLIENTS * times / (time.monotonic() - begun)


def test_a_frozen_node_takes_no_redirect_from_the_other_one() -> None:
    """The keys of one of two servers are followed as before while the other one is stopped."""

    async def follow(nodes: Nodes, processes: list[psutil.Process]) -> None:
        before = await nodes.follow("live", "frozen")
        for process in processes:
            process.suspend()
        try:
            stuck = [nodes.waiting.add(f"frozen{key}", None) for key in range(CLIENTS)]
            during = await nodes.follow("live")
            assert not any(each.done() for each in stuck)
            assert len(nodes.sessions["frozen"]) == waiting.ALONE - waiting.SAME_PLACE
            nodes.waiting.patience = 0
            nodes.waiting.look()
        finally:
            for process in processes:
                process.resume()
        told = await asyncio.gather(*stuck, return_exceptions=True)
        refused = [each for each in told if isinstance(each, TimeoutError)]
        assert len(refused) == CLIENTS - waiting.SAME_PLACE
        assert nodes.counted("live") == 2 * CLIENTS * TIMES
        assert nodes.counted("frozen") == CLIENTS * TIMES + waiting.SAME_PLACE
        print(f"live keys: {before / 2:,.0f} redirects per second before, {during:,.0f} meanwhile")

    with ExitStack() as stack:
        servers = {name: stack.enter_context(own_postgres()) for name in ("live", "frozen")}
        nodes = Nodes(servers, stack)
        asyncio.run(asyncio.wait_for(follow(nodes, servers["frozen"].processes()), 60))
        nodes.waiting.together_threads.shutdown()
        nodes.waiting.alone_threads.shutdown()
