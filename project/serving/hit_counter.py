"""Hits that wait while a statement is under way are all counted by the next one.

This module uses asyncio and no database: two functions send the statements. A key whose row is
locked has statements of its own, and delays no other key.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from shorturl.exceptions import RowLocked

MAX_KEYS = 64  # in one statement
MAX_KEY_STATEMENTS = 4  # under way at a time, each for one key
KEY_STATEMENT_SECONDS = 0.02  # for which other keys wait for a statement of one key
# After a statement that has counted N hits, the next one waits for N new hits, but no longer than
# this. Clients that follow one link after another come again at once, and one statement for all of
# them is cheaper than several.
GATHER_SECONDS = 0.003
MAX_FAILURES = 3  # in a row
REFUSE_INTERVAL = 0.01  # seconds between two searches for late hits; a timer for each costs more
FAILURE_SECONDS = 5.0  # after which a failure is forgotten, as nobody sends redirects meanwhile

Row = Any  # of a link that a statement has counted


class Hit(NamedTuple):
    """A hit that waits until a statement that counts it is sent, and then for its result."""

    visit: Any
    result: "asyncio.Future[Row | None]"
    refuse_at: float  # by the clock of the event loop


class KeyStatements:
    """The statements for one key of all the HitCounters that share sessions.

    MAX_KEY_STATEMENTS may be under way. One more session is kept for statements for several keys.
    """

    def __init__(self) -> None:
        self.free = asyncio.Semaphore(MAX_KEY_STATEMENTS)
        self.tasks = 0  # that send these statements, or wait until they may

    def are_free(self) -> bool:
        """Return whether the statement of a further task would be sent at once."""
        return self.tasks < MAX_KEY_STATEMENTS


class HitCounter:
    """The hits that wait in this process, at most `queue_timeout` seconds and REFUSE_INTERVAL each.

    `count_keys(visits)` counts the visits of several links. It gets them by key, with at most
    MAX_KEYS keys, and returns the rows of the links that it has counted, by key. It does not wait
    for a locked row, and leaves out its key. There is one call at a time.

    `count_key(key, visits)` counts the visits of one link, all or none of them. It returns the row
    of the link, or None if it has counted none: because the link has fewer uses left than there are
    visits, or because a visit is a bot's and the link has a limit. It waits for a locked row, and
    raises RowLocked at the time limit. `key_statements` limits how many calls there are at a time.
    """

    needs_database = True  # without the database of DATABASE_URL no hit is counted

    def __init__(
        self,
        count_keys: Callable[[Mapping[str, Sequence[Any]]], Awaitable[Mapping[str, Row]]],
        count_key: Callable[[str, Sequence[Any]], Awaitable[Row | None]],
        *,
        queue_timeout: float,
        key_statements: KeyStatements | None = None,
    ) -> None:
        self.count_keys = count_keys
        self.count_key = count_key
        self.queue_timeout = queue_timeout
        self.key_statements = key_statements or KeyStatements()
        self.failures = 0  # statements that failed in a row
        self.failed_at = 0.0
        self.waiting: dict[str, list[Hit]] = {}  # by key, for a statement for several keys
        self.waiting_task: asyncio.Task[None] | None = None  # sends these statements
        self.waiting_alone: dict[str, list[Hit]] = {}  # by key, for a statement for this key
        self.refuse_timer: asyncio.TimerHandle | None = None  # while not all hits are answered
        self.key_tasks: dict[str, asyncio.Task[None]] = {}  # by key, send these statements
        self.missing = 0  # hits that have to come before `gathered` is set
        self.gathered = asyncio.Event()

    def is_failing(self) -> bool:
        """Return whether the last redirects failed. With a full disk /readyz could still read."""
        recently = time.monotonic() < self.failed_at + FAILURE_SECONDS
        return self.failures >= MAX_FAILURES and recently

    async def count(self, key: str, visit: Any) -> Row | None:
        """Count a hit; return the row of the link, or None if it is not counted.

        Raises the error of the statement, or TimeoutError for a refused hit.
        """
        loop = asyncio.get_running_loop()
        hit = Hit(visit, loop.create_future(), loop.time() + self.queue_timeout)
        self.waiting.setdefault(key, []).append(hit)
        self.missing -= 1  # below 0 nobody waits for hits
        if self.missing == 0:
            self.gathered.set()
        if self.waiting_task is None:
            self.waiting_task = asyncio.create_task(self.count_waiting())
        if self.refuse_timer is None:
            self.refuse_late_hits()
        return await hit.result

    def refuse_late_hits(self) -> None:
        """Refuse the hits that have waited too long; again after a while, unless none is left."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for waiting in (self.waiting, self.waiting_alone):
            for key, hits in list(waiting.items()):
                # The hits of a key are in the order in which they came.
                late = list(takewhile(lambda hit: hit.refuse_at <= now, hits))
                for hit in late:
                    set_error(hit.result, TimeoutError())
                del hits[: len(late)]
                if not hits:
                    del waiting[key]
        self.refuse_timer = None
        if self.waiting_task or self.key_tasks:
            self.refuse_timer = loop.call_later(REFUSE_INTERVAL, self.refuse_late_hits)

    async def count_waiting(self) -> None:
        """Count the waiting hits, until no further hit has come."""
        while self.waiting:
            batch = {}
            for key in list(self.waiting)[:MAX_KEYS]:
                if hits := take_unanswered(self.waiting.pop(key)):
                    batch[key] = hits
            if not batch:
                continue
            if len(batch) == 1 and self.key_statements.are_free():
                counted = await self.count_lone_key(*batch.popitem())
            else:
                counted = await self.count_batch(batch)
            await self.gather_hits(counted)
        self.waiting_task = None

    async def gather_hits(self, number: int) -> None:
        """Give further hits time to come: until there are `number`, at most GATHER_SECONDS."""
        self.missing = number - sum(map(len, self.waiting.values()))
        if self.missing > 0:
            self.gathered.clear()
            timer = asyncio.get_running_loop().call_later(GATHER_SECONDS, self.gathered.set)
            await self.gathered.wait()
            timer.cancel()

    async def count_batch(self, batch: Mapping[str, list[Hit]]) -> int:
        """Count the hits of several keys by one statement; return how many it has counted."""
        try:
            visits = {key: [hit.visit for hit in hits] for key, hits in batch.items()}
            rows = await self.count_keys(visits)
        except Exception as error:
            self.set_errors([hit for hits in batch.values() for hit in hits], error)
            return 0
        counted = 0
        for key, hits in batch.items():
            if key in rows:
                counted += len(hits)
                self.failures = 0
                set_results(hits, rows[key])
            else:  # its row may be locked
                self.start_key_task(key, hits)
        return counted

    async def count_lone_key(self, key: str, hits: list[Hit]) -> int:
        """Count the hits of the only key that waits, by a statement for one key, which is cheaper.

        Returns how many hits it counts: none if they wait for an earlier statement of the key.
        """
        is_under_way = key in self.key_tasks
        task = self.start_key_task(key, hits)
        if is_under_way:
            return 0
        await asyncio.wait([task], timeout=KEY_STATEMENT_SECONDS)
        return len(hits)

    def start_key_task(self, key: str, hits: list[Hit]) -> "asyncio.Task[None]":
        """Queue hits for statements of their key alone; return the task that sends these."""
        self.waiting_alone.setdefault(key, []).extend(hits)
        if key not in self.key_tasks:
            self.key_statements.tasks += 1
            self.key_tasks[key] = asyncio.create_task(self.run_key_task(key))
        return self.key_tasks[key]

    async def run_key_task(self, key: str) -> None:
        """Count the hits of a key by statements of its own, until no further hit has come."""
        async with self.key_statements.free:
            while hits := take_unanswered(self.waiting_alone.pop(key, [])):
                await self.count_key_hits(key, hits)
        del self.key_tasks[key]
        self.key_statements.tasks -= 1

    async def count_key_hits(self, key: str, hits: Sequence[Hit]) -> None:
        """Count the hits of a key together, or one after another if too few uses are left.

        Then those of bots are not counted, as they use nothing up.
        """
        try:
            if not await self.count_together(key, hits) and len(hits) > 1:
                people = [hit for hit in hits if not hit.visit.is_bot]
                for hit in people:
                    if not await self.count_together(key, [hit]):
                        break  # no use is left
            set_results(hits, None)  # for the hits that have no result yet: they are not counted
        except Exception as error:
            self.set_errors(hits, error)

    async def count_together(self, key: str, hits: Sequence[Hit]) -> bool:
        """Count the hits of a key by one statement; return whether they are counted."""
        row = await self.count_key(key, [hit.visit for hit in hits])
        if row is not None:
            self.failures = 0
            set_results(hits, row)
        return row is not None

    def set_errors(self, hits: Sequence[Hit], error: Exception) -> None:
        """Give the hits of a failed statement its error, and count the failure for is_failing().

        RowLocked is no failure of the service: another transaction has the row of one link.
        """
        if not isinstance(error, RowLocked):
            self.failures += 1
            self.failed_at = time.monotonic()
        for hit in hits:
            set_error(hit.result, error)


def take_unanswered(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits that are not refused, and whose clients still wait."""
    return [hit for hit in hits if not hit.result.done()]


def set_error(result: "asyncio.Future[Row | None]", error: Exception) -> None:
    if not result.done():
        result.set_exception(error)


def set_results(hits: Sequence[Hit], row: Row | None) -> None:
    for hit in hits:
        if not hit.result.done():
            hit.result.set_result(row)
