"""Redirects on a Citus cluster: each goes to the node of its key, and waits for no other node.

The hits of a shard wait together, so no statement has keys of two shards. The statements of a node
share its few sessions. A dead or frozen node holds these, and no others.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any

from django.conf import settings
from django.db import NotSupportedError
from django.db.backends.utils import CursorWrapper

from project.database import shards
from project.database.greenlets import Greenlets
from project.serving.waiting_hits import ALONE, TOGETHER, Waiting
from shorturl import following
from shorturl.limits import bans

SESSIONS = TOGETHER + ALONE  # of this process with each node
AGE = 60.0  # seconds after which the shards are read again: a rebalance moves them
APART = 1.0  # seconds between two readings, however many keys are guessed and errors are met


class Nodes:
    """The hits of this process on a cluster. A hit waits at most `patience` seconds for a session.

    `session` is that of Greenlets, and takes how to `connect`, too.
    """

    def __init__(self, session: Callable[..., Any], *, most_keys: int, patience: float) -> None:
        self.session, self.most_keys, self.patience = session, most_keys, patience
        self.loop, self.reading = asyncio.get_running_loop(), asyncio.Lock()
        self.coordinator = Greenlets(session).run
        self.shards = shards.Shards([])
        self.read_at, self.stale = float("-inf"), True
        self.waiting, self.pool = cache(self.waiting_of), cache(self.pool_of)
        self.keeping = self.loop.create_task(self.keep())

    async def add(self, key: str, hit: Any) -> Any:
        """Have a hit counted; return its result, None if no live link has the key.

        Raises the error of the statement, or TimeoutError when the hit has waited too long.
        """
        if not self.shards.ids:
            await self.read(first=True)
        found = await self.count(key, hit)
        if found is None:  # the shard may have moved before the statement
            with suppress(Exception):
                await asyncio.wait_for(self.read(), APART + self.patience)
            found = await self.count(key, hit)
        return found

    async def count(self, key: str, hit: Any) -> Any:
        try:
            return await self.waiting(self.shards.of(key)).add(key, hit)
        except Exception:
            self.stale = True
            raise

    async def forwards_query(self, key: str) -> bool:
        """Return whether the link forwards the query of its short URL, as its node says."""
        run = self.pool(self.shards.node(self.shards.of(key)))
        return bool(await run(lambda cursor: following.forwards_query(key)))

    def waiting_of(self, shard: int) -> Waiting:
        """Return the waiting hits of a shard, whose statements go to the node that has it then."""

        def send(count: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
            return self.loop.create_task(self.pool(self.shards.node(shard))(count, *arguments))

        ways = partial(send, count_several), partial(send, following.count_key)
        return Waiting(*ways, most_keys=self.most_keys, patience=self.patience)

    def pool_of(self, node: shards.Node) -> Callable[..., Any]:
        """Return what runs functions with a cursor of one of the node's SESSIONS."""
        run = Greenlets(partial(self.session, connect=partial(shards.connect, node=node))).run
        free = asyncio.Semaphore(SESSIONS)

        async def run_one(function: Callable[..., Any], *arguments: Any) -> Any:
            async with asyncio.timeout(self.patience):
                await free.acquire()
            try:
                return await asyncio.shield(run(function, *arguments))
            finally:
                free.release()

        return run_one

    async def read(self, *, first: bool = False) -> None:
        """Read bans and shards after this call, or for the `first` time. Readings are APART."""
        called = self.loop.time()
        async with self.reading:
            if not (self.shards.ids if first else self.read_at > called):
                await asyncio.sleep(self.read_at + APART - self.loop.time())
                self.read_at = self.loop.time()
                await asyncio.shield(self.coordinator(lambda cursor: bans.refresh()))
                self.shards = await asyncio.shield(self.coordinator(shards.read))
                self.stale = False

    async def keep(self) -> None:
        """Keep what this process remembers of the coordinator new, as long as that answers."""
        while True:
            with suppress(Exception):
                await self.coordinator(lambda cursor: bans.refresh())
                if self.stale or self.loop.time() > self.read_at + AGE:
                    await self.read()
            await asyncio.sleep(APART)


def count_several(hits: Mapping[str, Sequence[Any]], cursor: CursorWrapper) -> Mapping[str, Any]:
    """Count the hits of keys of one shard; none, so that each key has a statement, of several.

    They are of several when the shard was split since it was read.
    """
    try:
        return following.count_several(hits, cursor) if settings.SHORTURL_VISITS else {}
    except NotSupportedError:
        return {}
