"""Hits that wait while a statement is under way are all counted by the next one.

This module uses asyncio and no database: two functions send the statements. A key whose row is
locked has statements of its own, so it delays no other key. So does a key that waits while nothing
is under way, because the statement for one key is cheaper.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from shorturl.exceptions import RowLocked

MAX_KEYS = 64  # in one statement
MAX_KEY_STATEMENTS = 4  # for one key each, at a time
# After a statement the next one waits so long for as many new hits as that one counted: clients
# that follow one link after another come again at once, and one statement for all is cheaper.
GATHER_SECONDS = 0.003
# After so many failures in a row redirects fail; for so long after the last one, as nobody sends
# redirects to a service that is not ready.
MAX_FAILURES, FAILURE_SECONDS = 3, 5.0

Row = Any  # what a statement returns of a counted link


class Hit:
    """A hit that waits. A hit that is refused, or whose client has left, is not sent."""

    __slots__ = ("refusal", "result", "visit")

    def __init__(self, visit: Any, result: "asyncio.Future[Row | None]") -> None:
        self.visit, self.result = visit, result

    def start_waiting(self, seconds: float) -> None:
        """Be refused after some seconds, unless the hit is sent before."""
        loop = self.result.get_loop()
        self.refusal = loop.call_later(seconds, self.set_error, TimeoutError())

    def set_result(self, row: Row | None) -> None:
        if not self.result.done():
            self.result.set_result(row)

    def set_error(self, error: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(error)


class Gathering:
    """A wait for a number of new hits."""

    def __init__(self, missing: int, complete: "asyncio.Future[None]") -> None:
        self.missing, self.complete = missing, complete

    def note_hit(self) -> None:
        self.missing -= 1
        if self.missing <= 0:
            self.end()

    def end(self) -> None:
        if not self.complete.done():
            self.complete.set_result(None)


class HitCounter:
    """The hits that wait in this process, on the running event loop.

    `count_keys` gets the visits of at most MAX_KEYS keys. It returns the rows of the links that it
    has counted, by key, and waits for no row. One call is under way at a time. `count_key` gets a
    key and its visits. It returns the row if it has counted all of them, else None. It may wait for
    its row, and raises RowLocked. A bot among the visits may be why they are not counted: a visit
    has `is_bot`. At most MAX_KEY_STATEMENTS calls are under way at a time.

    A hit that waits longer than `queue_timeout` seconds until it is sent is refused.
    """

    needs_database = True  # of DATABASE_URL: without it no hit is counted

    def __init__(
        self,
        count_keys: Callable[[Mapping[str, Sequence[Any]]], Awaitable[Mapping[str, Row]]],
        count_key: Callable[[str, Sequence[Any]], Awaitable[Row | None]],
        *,
        queue_timeout: float,
    ) -> None:
        self.count_keys, self.count_key = count_keys, count_key
        self.queue_timeout = queue_timeout
        self.failures, self.failed_at = 0, 0.0  # statements that failed in a row, and the last one
        self.loop = asyncio.get_running_loop()
        self.waiting: dict[str, list[Hit]] = {}  # for the next statement for several keys
        self.single: dict[str, list[Hit]] = {}  # of each key that has statements of its own
        self.free_statements = asyncio.Semaphore(MAX_KEY_STATEMENTS)
        # By the key that has statements of its own; "" is for several keys.
        self.gatherings: dict[str, Gathering] = {}
        self.is_counting = False
        self.tasks: set[asyncio.Task[None]] = set()

    def is_failing(self) -> bool:
        """Return whether redirects fail, also where the database answers, as with a full disk."""
        recently = self.loop.time() < self.failed_at + FAILURE_SECONDS
        return self.failures >= MAX_FAILURES and recently

    async def count(self, key: str, visit: Any) -> Row | None:
        """Count a hit; return the row of the link, or None if it is not counted.

        Raises the error of the statement, or TimeoutError for a refused hit.
        """
        hit = Hit(visit, self.loop.create_future())
        hit.start_waiting(self.queue_timeout)
        if key in self.single:
            self.single[key].append(hit)
            gathering = self.gatherings.get(key)
        else:
            self.waiting.setdefault(key, []).append(hit)
            gathering = self.gatherings.get("")
            self.start_counting()
        if gathering:
            gathering.note_hit()
        try:
            return await hit.result
        finally:
            hit.refusal.cancel()

    def start_counting(self) -> None:
        if not self.is_counting:
            self.is_counting = True
            self.start(self.count_waiting())

    async def count_waiting(self) -> None:
        """Count the waiting hits, and those that come meanwhile."""
        while self.waiting:
            keys = list(self.waiting)[:MAX_KEYS]
            batch = {key: take_wanted(self.waiting.pop(key)) for key in keys}
            batch = {key: hits for key, hits in batch.items() if hits}
            if len(batch) == 1 and not self.single:
                self.count_singly(*batch.popitem())
            elif batch:
                counted = await self.count_batch(batch)
                await self.gather("", counted - sum(map(len, self.waiting.values())))
        self.is_counting = False

    async def count_batch(self, batch: Mapping[str, list[Hit]]) -> int:
        """Count the hits of several keys by one statement; return how many it has counted."""
        counted = 0
        try:
            rows = await self.count_keys(
                {key: [hit.visit for hit in hits] for key, hits in batch.items()}
            )
        except Exception as error:
            self.note_failure([hit for hits in batch.values() for hit in hits], error)
            return 0
        for key, hits in batch.items():
            if key in rows:
                counted += len(hits)
                self.note_success(hits, rows[key])
            else:
                self.count_singly(key, hits)
        return counted

    def count_singly(self, key: str, hits: list[Hit]) -> None:
        """Count the hits of a key, and those that come meanwhile, by statements of its own."""
        for hit in hits:
            hit.start_waiting(self.queue_timeout)
        if key in self.single:
            self.single[key] += hits
        else:
            self.single[key] = hits
            self.start(self.count_single(key))

    async def count_single(self, key: str) -> None:
        async with self.free_statements:
            while hits := take_wanted(self.single[key]):
                self.single[key] = []
                await self.count_hits(key, hits)
                if self.free_statements.locked():
                    break  # other keys wait
                await self.gather(key, len(hits) - len(self.single[key]))
        if later := self.single.pop(key):
            self.waiting.setdefault(key, []).extend(later)
            self.start_counting()

    async def count_hits(self, key: str, hits: Sequence[Hit]) -> None:
        """Count the hits of a key together, or, where too few uses are left, one by one."""
        try:
            if not await self.count_together(key, hits) and len(hits) > 1:
                for hit in hits:
                    if not hit.visit.is_bot and not await self.count_together(key, [hit]):
                        break  # no use is left
        except Exception as error:
            self.note_failure(hits, error)
        for hit in hits:
            hit.set_result(None)

    async def count_together(self, key: str, hits: Sequence[Hit]) -> bool:
        """Return whether a statement has counted the hits; it counts all or none."""
        row = await self.count_key(key, [hit.visit for hit in hits])
        if row is not None:
            self.note_success(hits, row)
        return row is not None

    async def gather(self, statements: str, missing: int) -> None:
        """Wait until so many new hits have come, at most GATHER_SECONDS."""
        if missing > 0:
            gathering = Gathering(missing, self.loop.create_future())
            self.gatherings[statements] = gathering
            timer = self.loop.call_later(GATHER_SECONDS, gathering.end)
            await gathering.complete
            timer.cancel()
            del self.gatherings[statements]

    def note_success(self, hits: Sequence[Hit], row: Row) -> None:
        self.failures = 0
        for hit in hits:
            hit.set_result(row)

    def note_failure(self, hits: Sequence[Hit], error: Exception) -> None:
        if not isinstance(error, RowLocked):
            self.failures += 1
            self.failed_at = self.loop.time()
        for hit in hits:
            hit.set_error(error)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


def take_wanted(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits to send, which wait no longer."""
    wanted = [hit for hit in hits if not hit.result.done()]
    for hit in wanted:
        hit.refusal.cancel()
    return wanted
