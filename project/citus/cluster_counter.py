"""Redirects on a Citus cluster: each goes to the node of its key, and waits for no other node."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from typing import Any

import psycopg2
from django.conf import settings
from django.db import DatabaseError

from project.citus.node_sessions import NodeSessions
from project.citus.shard_map import Node, ShardMap, find_problem
from project.serving.hit_counter import HitCounter, Row
from shorturl.models import Visit

MAX_MAP_AGE = 60.0  # seconds; a rebalance moves shards
MAP_INTERVAL = 1.0  # seconds between two readings, however many keys are guessed and errors are met
COORDINATOR_SECONDS = 0.1  # after which the workers are asked for the map, too


class ClusterHitCounter:
    """The hits of this process on a cluster: a HitCounter for each shard.

    The hits of a shard wait together, so no statement has keys of two shards. The shards of a node
    share its sessions. `workers`, each HOST:PORT, are asked for the map of shards when the
    coordinator is away.
    """

    def __init__(self, workers: Sequence[str]) -> None:
        self.workers = [Node.parse(worker) for worker in workers]
        self.loop = asyncio.get_running_loop()
        self.map = ShardMap([])
        self.read_at, self.is_stale = float("-inf"), True
        self.reading: asyncio.Task[None] | None = None
        self.unusable: set[Node] = set()  # whose hits go by way of the coordinator
        self.counters: dict[int, HitCounter] = {}  # by shard
        self.sessions: dict[Node, NodeSessions] = {}
        self.threads = ThreadPoolExecutor(1, "citus")
        self.tasks = {self.loop.create_task(self.keep_map())}

    async def count(self, key: str, visit: Visit) -> Row | None:
        """Count a hit; return the row of the link, or None if it is not counted.

        Raises the error of the statement, or TimeoutError for a hit that has waited too long.
        """
        if not self.map.shards:
            await self.read_map()
        row = await self.count_on_node(key, visit)
        if row is None and await self.is_elsewhere(key):
            row = await self.count_on_node(key, visit)
        return row

    async def count_on_node(self, key: str, visit: Visit) -> Row | None:
        try:
            return await self.counter_of(self.map.find_shard(key)).count(key, visit)
        except Exception:
            self.is_stale = True
            raise

    async def is_elsewhere(self, key: str) -> bool:
        """Return whether another node has a key whose node had no row of it.

        A row that is there is final: a link that is used up, expired or deleted. For an unknown key
        the map is read again, at most once in MAP_INTERVAL.
        """
        node = self.node_of(self.map.find_shard(key))
        try:
            if await self.sessions_of(node).has_link(key):
                return False
            if self.loop.time() > self.read_at + MAP_INTERVAL:
                await self.read_map()
        except Exception:
            return False  # Django answers, and says what fails
        return self.node_of(self.map.find_shard(key)) != node

    def is_failing(self) -> bool:
        """Return whether redirects fail while nodes answer; one node that fails is no reason."""
        return bool(self.counters) and all(
            counter.is_failing() for counter in self.counters.values()
        )

    @property
    def needs_database(self) -> bool:
        """Return whether redirects fail while the database of DATABASE_URL does not answer."""
        return not self.map.shards

    def node_of(self, shard: int) -> Node:
        node = self.map.find_node(shard)
        return Node() if node in self.unusable else node

    def sessions_of(self, node: Node) -> NodeSessions:
        if node not in self.sessions:
            self.sessions[node] = NodeSessions(node)
        return self.sessions[node]

    def counter_of(self, shard: int) -> HitCounter:
        """Return the counter of a shard, whose statements go to the node that has it then."""
        if shard not in self.counters:
            self.counters[shard] = HitCounter(
                partial(self.count_keys, shard),
                lambda key, visits: self.sessions_of(self.node_of(shard)).count_key(key, visits),
                queue_timeout=settings.QUEUE_TIMEOUT,
            )
        return self.counters[shard]

    async def count_keys(
        self, shard: int, visits: Mapping[str, Sequence[Visit]]
    ) -> Mapping[str, Row]:
        try:
            return await self.sessions_of(self.node_of(shard)).count_keys(visits)
        except psycopg2.NotSupportedError:
            return {}  # the shard was split since it was read: then each key has its statement

    async def read_map(self) -> None:
        """Read the map of shards. All callers wait for one reading, and get its error.

        Raises TimeoutError after the limit of the queue; the reading then continues.
        """
        if self.reading is None or self.reading.done():
            self.reading = self.loop.create_task(self.read_from_any_node())
        async with asyncio.timeout(settings.QUEUE_TIMEOUT):
            await asyncio.shield(self.reading)

    async def read_from_any_node(self) -> None:
        """Read the map from the coordinator, or from the first worker that answers."""
        nodes = [Node(), *{*self.workers, *self.map.nodes.values()} - {Node()}]
        readings = [self.loop.create_task(self.sessions_of(nodes[0]).read_map())]
        await asyncio.wait(readings, timeout=COORDINATOR_SECONDS)
        if not (readings[0].done() and readings[0].exception() is None):
            readings += [
                self.loop.create_task(self.sessions_of(node).read_map()) for node in nodes[1:]
            ]
        error: Exception = psycopg2.OperationalError("No node has answered")
        for reading in asyncio.as_completed(readings):
            try:
                self.map = await reading
            except Exception as reason:
                error = reason
                continue
            self.read_at, self.is_stale = self.loop.time(), False
            for other in readings:
                other.cancel()
            self.start(self.check_nodes({*self.map.nodes.values()} - {Node()}))
            return
        raise error

    async def check_nodes(self, nodes: set[Node]) -> None:
        """Find the nodes that redirects cannot use."""
        for node in nodes:
            with suppress(DatabaseError):  # it does not answer: its redirects are a 503
                if await self.loop.run_in_executor(self.threads, check_node, node):
                    self.unusable.add(node)
                else:
                    self.unusable.discard(node)

    async def keep_map(self) -> None:
        """Read the map again after an error, and from time to time."""
        while True:
            if self.is_stale or self.loop.time() > self.read_at + MAX_MAP_AGE:
                with suppress(Exception):
                    await self.read_map()
            await asyncio.sleep(MAP_INTERVAL)

    def start(self, work: Any) -> None:
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


def check_node(node: Node) -> str:
    """Return why redirects cannot use a node; raise OperationalError if it does not answer."""
    with closing(node.open_database()) as database:
        return find_problem(database)
