"""Redirects on a Citus cluster: each goes to the node of its key, and waits for no other node."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from django.conf import settings

from project.citus.node_sessions import NodeSessions
from project.citus.shard_map import Node, ShardMap
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
        self.counters: dict[int, HitCounter] = {}  # by shard
        self.sessions: dict[Node, NodeSessions] = {}
        self.keeping = self.loop.create_task(self.keep_map())

    async def count(self, key: str, visit: Visit) -> Row | None:
        """Count a hit; return the row of the link, or None if it is not counted.

        Raises the error of the statement, or TimeoutError for a hit that has waited too long.
        """
        if not self.map.shards:
            await self.read_map()
        row = await self.count_by_map(key, visit)
        if row is None and self.loop.time() > self.read_at + MAP_INTERVAL:
            # The node may be one that has left the cluster.
            await self.read_map()
            row = await self.count_by_map(key, visit)
        return row

    async def count_by_map(self, key: str, visit: Visit) -> Row | None:
        try:
            return await self.counter_of(self.map.find_shard(key)).count(key, visit)
        except Exception:
            self.is_stale = True
            raise

    def is_failing(self) -> bool:
        """Return whether redirects fail while nodes answer; one node that fails is no reason."""
        return bool(self.counters) and all(
            counter.is_failing() for counter in self.counters.values()
        )

    @property
    def needs_database(self) -> bool:
        """Return whether redirects fail while the database of DATABASE_URL does not answer.

        Another thread than that of the event loop asks, and waits for the first map.
        """
        if not self.map.shards:
            with suppress(Exception):
                asyncio.run_coroutine_threadsafe(self.read_map(), self.loop).result()
        return not self.map.shards

    def counter_of(self, shard: int) -> HitCounter:
        """Return the counter of a shard, whose statements go to the node that has it then."""
        if shard not in self.counters:
            self.counters[shard] = HitCounter(
                lambda visits: self.sessions_of(self.map.find_node(shard)).count_keys(visits),
                lambda key, visits: self.sessions_of(self.map.find_node(shard)).count_key(
                    key, visits
                ),
                queue_timeout=settings.QUEUE_TIMEOUT,
            )
        return self.counters[shard]

    def sessions_of(self, node: Node) -> NodeSessions:
        if node not in self.sessions:
            self.sessions[node] = NodeSessions(node)
        return self.sessions[node]

    async def keep_map(self) -> None:
        """Read the map again after an error, and from time to time."""
        while True:
            if self.is_stale or self.loop.time() > self.read_at + MAX_MAP_AGE:
                with suppress(Exception):
                    await self.read_map()
            await asyncio.sleep(MAP_INTERVAL)

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
        workers = {*self.workers, *self.map.nodes.values()} - {Node()}
        readings = [self.loop.create_task(self.sessions_of(Node()).read_map())]
        _, pending = await asyncio.wait(readings, timeout=COORDINATOR_SECONDS)
        if pending or readings[0].exception():
            readings += [
                self.loop.create_task(self.sessions_of(node).read_map()) for node in workers
            ]
        for reading in asyncio.as_completed(readings):
            with suppress(Exception):
                self.map = await reading
                break
        else:
            readings[0].result()  # raises the error of the coordinator
        self.read_at, self.is_stale = self.loop.time(), False
        for other in readings:
            other.cancel()
