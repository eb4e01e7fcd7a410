"""Redirects on a Citus cluster: each goes to the node of its key, and waits for no other node."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from django.conf import settings

from project.citus.node_sessions import NodeSessions
from project.citus.shard_map import Node, ShardMap
from project.serving.hit_counter import FAILURE_SECONDS, HitCounter, Row
from shorturl.models import Visit

MAX_MAP_AGE = 60.0  # seconds; a rebalance moves shards
MAP_INTERVAL = 1.0  # seconds between two readings, however many errors and unknown keys there are
COORDINATOR_TIMEOUT = 0.1  # seconds, after which the map is also read from the workers

logger = logging.getLogger(__name__)


class ClusterHitCounter:
    """Counts the hits of this process on a cluster by a HitCounter for each shard.

    So no statement has keys of two shards. The shards of a node share its sessions, of which locked
    keys cannot take all. The map of shards is read from `workers`, each HOST:PORT, when the
    coordinator is away.
    """

    def __init__(self, workers: Sequence[str]) -> None:
        self.workers = [Node.parse(worker) for worker in workers]
        self.loop = asyncio.get_running_loop()
        self.map = ShardMap([])
        self.read_at = float("-inf")  # by the clock of the event loop
        self.answered_at = float("-inf")  # when a node last answered a hit
        self.is_stale = True
        self.reading: asyncio.Task[None] | None = None
        self.counters: dict[tuple[Node, int], HitCounter] = {}  # by node and shard
        self.sessions: dict[Node, NodeSessions] = {}
        self.map_task = self.loop.create_task(self.keep_map_current())

    async def count(self, key: str, visit: Visit) -> Row | None:
        """Count a hit; return the row of the link, or None if it is not counted.

        Raises the error of the statement, or TimeoutError for a hit that has waited too long.
        """
        if not self.map.shards:
            await self.read_map()
        row = await self.count_by_map(key, visit)
        if row is None and self.loop.time() > self.read_at + MAP_INTERVAL:
            # The node may be one that has left the cluster, whose tables are empty.
            await self.read_map()
            row = await self.count_by_map(key, visit)
        return row

    async def count_by_map(self, key: str, visit: Visit) -> Row | None:
        """Count a hit on the node that the map names; an error makes the map stale."""
        try:
            shard = self.map.find_shard(key)
            row = await self.get_counter(self.map.find_node(shard), shard).count(key, visit)
        except Exception:
            self.is_stale = True
            raise
        self.answered_at = self.loop.time()
        return row

    def is_failing(self) -> bool:
        """Return whether the last redirects failed, and no node has answered one meanwhile.

        Without a map every redirect fails.
        """
        if self.needs_database:
            return True
        has_answered = self.loop.time() < self.answered_at + FAILURE_SECONDS
        counters = list(self.counters.values())  # at once: the event loop adds others meanwhile
        return not has_answered and any(counter.is_failing() for counter in counters)

    @property
    def needs_database(self) -> bool:
        """Whether redirects fail while the coordinator is away: only if no map was ever read.

        /readyz reads this in a thread, which waits until the event loop has tried to read a map.
        """
        if not self.map.shards:
            try:
                asyncio.run_coroutine_threadsafe(self.read_map(), self.loop).result()
            except Exception as error:
                logger.error("The map of shards was not read: %s", error)
        return not self.map.shards

    def get_counter(self, node: Node, shard: int) -> HitCounter:
        """Return the counter of a shard on a node.

        The counters of a node share its sessions. So they also share the limit of statements for
        one key, `key_statements`.
        """
        if (node, shard) not in self.counters:
            sessions = self.get_sessions(node)
            self.counters[node, shard] = HitCounter(
                sessions.count_keys,
                sessions.count_key,
                queue_timeout=settings.QUEUE_TIMEOUT,
                key_statements=sessions.key_statements,
            )
        return self.counters[node, shard]

    def get_sessions(self, node: Node) -> NodeSessions:
        if node not in self.sessions:
            self.sessions[node] = NodeSessions(node)
        return self.sessions[node]

    async def keep_map_current(self) -> None:
        """Read the map again after an error, and every MAX_MAP_AGE seconds."""
        while True:
            if self.is_stale or self.loop.time() > self.read_at + MAX_MAP_AGE:
                with suppress(Exception):
                    await self.read_map()
            await asyncio.sleep(MAP_INTERVAL)

    async def read_map(self) -> None:
        """Wait until the map of shards is read again, by one task for all callers.

        Raises the error of the task, or TimeoutError after QUEUE_TIMEOUT; the task then continues.
        """
        if self.reading is None or self.reading.done():
            self.reading = self.loop.create_task(self.read_from_any_node())
        async with asyncio.timeout(settings.QUEUE_TIMEOUT):
            await asyncio.shield(self.reading)

    async def read_from_any_node(self) -> None:
        """Read the map from the coordinator, or from the first worker that answers."""

        def start_reading(node: Node) -> "asyncio.Task[ShardMap]":
            return self.loop.create_task(self.get_sessions(node).read_map())

        coordinator = Node()
        from_coordinator = start_reading(coordinator)
        readings = [from_coordinator]
        _, pending = await asyncio.wait(readings, timeout=COORDINATOR_TIMEOUT)
        if pending or from_coordinator.exception():
            workers = {*self.workers, *self.map.nodes.values()} - {coordinator}
            readings += map(start_reading, workers)
        for reading in asyncio.as_completed(readings):
            with suppress(Exception):
                self.map = await reading
                break
        else:
            from_coordinator.result()  # raises its error
        self.read_at = self.loop.time()
        self.is_stale = False
        for reading in readings:
            reading.cancel()  # without effect on a finished task
