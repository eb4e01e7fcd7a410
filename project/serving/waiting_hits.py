"""Hits wait while statements are under way; the next statement counts all of them.

This module uses asyncio and no database: it is given two functions that start statements. One
counts hits of several keys and waits for no row. The other one counts hits of one key and may wait
for its row. Keys whose row was locked are tried again one at a time, by the second function, so a
locked row delays no other key. A key that waits alone while nothing is under way also goes to the
second function, whose statement is cheaper.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

TOGETHER = 1  # statements for several keys at a time; more of them would each count fewer hits
ALONE = 4  # statements for one key at a time
# Seconds. After a statement the next one waits so long for as many new hits as that one answered:
# clients that follow one link after another come again at once, and one statement for all of them
# is cheaper than two.
GATHER = 0.003
LOOKS = 4  # times that waiting hits are checked within `patience`


# A hit, the future of its result, and the time when it began to wait.
Hit = tuple[Any, "asyncio.Future[Any]", float]
Batch = dict[str, list[Hit]]  # by key


class NotSent(Exception):
    """No statement was sent for the hit, because of the error in __cause__."""


class Waiting:
    """The hits that wait in this process; for the running event loop.

    `together` gets the hits of at most `most_keys` keys, by key. Its future gets a result for each
    key that it has counted. `alone` gets a key and its hits. Its future gets the results of those
    that it has counted, which are the first ones. A hit that waits longer than `patience` seconds
    until it is sent is refused.
    """

    def __init__(
        self,
        together: Callable[[Mapping[str, Sequence[Any]]], "asyncio.Future[Mapping[str, Any]]"],
        alone: Callable[[str, Sequence[Any]], "asyncio.Future[Sequence[Any]]"],
        *,
        most_keys: int,
        patience: float,
    ) -> None:
        self.together, self.alone = together, alone
        self.most_keys, self.patience = most_keys, patience
        self.free_together, self.free_alone = TOGETHER, ALONE
        # Every hit that is not sent yet is in one of these two.
        self.waiting: Batch = {}
        self.behind: Batch = {}  # of each key that is under way or left
        self.for_alone: deque[str] = deque()
        self.expected = 0  # new hits, until `gathered`
        self.gathered = 0.0
        self.loop = asyncio.get_running_loop()
        self.begins = False  # begin() runs in the next round of the event loop
        self.next_begin: asyncio.TimerHandle | None = None
        self.next_look: asyncio.TimerHandle | None = None

    def add(self, key: str, hit: Any) -> "asyncio.Future[Any]":
        """Have a hit counted; the future gets its result, None if it is not counted.

        The future gets the error of the statement, NotSent for a hit that waited behind it, or
        TimeoutError for a refused hit. A hit whose future is cancelled before it is sent is not
        sent.
        """
        result: asyncio.Future[Any] = self.loop.create_future()
        one = (hit, result, self.loop.time())
        (self.behind if key in self.behind else self.waiting).setdefault(key, []).append(one)
        self.expected -= 1
        if self.next_look is None:
            self.next_look = self.loop.call_later(self.patience / LOOKS, self.look)
        if self.expected <= 0:  # otherwise begin() is called when the time is over
            self.begin_soon()
        return result

    def begin_soon(self) -> None:
        """Send statements after the hits that have arrived by now are read."""
        if not self.begins:
            self.begins = True
            self.loop.call_soon(self.begin)

    def begin(self) -> None:
        """Send as many statements as are allowed at a time, unless more hits are expected."""
        self.begins = False
        # Rounded as uvloop's clock is, which has whole milliseconds.
        if self.expected > 0 and (wait := round(self.gathered - self.loop.time(), 3)) > 0:
            if self.next_begin is None:
                self.next_begin = self.loop.call_later(wait, self.begin_late)
            return
        self.expected = 0
        self.begin_single()
        while self.waiting and self.free_together:
            keys = [*islice(self.waiting, self.most_keys)]
            taken = {key: still_wanted(self.waiting.pop(key)) for key in keys}
            if batch := {key: hits for key, hits in taken.items() if hits}:
                self.behind.update({key: [] for key in batch})
                self.free_together -= 1
                sent = {key: [hit for hit, _, _ in hits] for key, hits in batch.items()}
                self.together(sent).add_done_callback(partial(self.end_together, batch))
        self.begin_alone()

    def begin_late(self) -> None:
        """Send statements although fewer hits have arrived than were expected."""
        self.next_begin = None
        self.begin()

    def begin_single(self) -> None:
        """Leave a key that waits alone while nothing is under way to `alone`."""
        if len(self.waiting) == 1 and self.free_together and self.free_alone == ALONE:
            key, hits = self.waiting.popitem()
            self.behind[key] = hits
            self.for_alone.append(key)

    def begin_alone(self) -> None:
        """Send as many statements for one key as are allowed."""
        while self.for_alone and self.free_alone:
            key = self.for_alone.popleft()
            hits, self.behind[key] = still_wanted(self.behind[key]), []
            if hits:
                self.free_alone -= 1
                counted = self.alone(key, [hit for hit, _, _ in hits])
                counted.add_done_callback(partial(self.end_alone, key, hits))
            else:
                self.release(key)

    def end_together(self, batch: Batch, statement: "asyncio.Future[Mapping[str, Any]]") -> None:
        """Set the results of the counted hits; leave the other keys to `alone`."""
        self.free_together += 1
        answered = 0
        if error := statement.exception():
            for key, hits in batch.items():
                self.fail(key, hits, error)
        else:
            counted = statement.result()
            for key, hits in batch.items():
                if key in counted:
                    tell(hits, [counted[key]] * len(hits))
                    answered += len(hits)
                    self.release(key)
                else:
                    self.behind[key] = hits + self.behind[key]
                    self.for_alone.append(key)
        self.begin_alone()
        self.begin_after(answered)

    def end_alone(
        self, key: str, hits: list[Hit], statement: "asyncio.Future[Sequence[Any]]"
    ) -> None:
        """Set the results of the counted hits. A key with later hits stays with `alone`.

        Other sessions change its row, too, so `together` would leave it out again. But where others
        are left to `alone`, it would wait for their rows.
        """
        self.free_alone += 1
        if error := statement.exception():
            self.fail(key, hits, error)
        else:
            tell(hits, statement.result())
            if self.behind[key] and not self.for_alone:
                self.for_alone.append(key)
            else:
                self.release(key)
        self.begin_after(0 if error else len(hits))

    def begin_after(self, answered: int) -> None:
        """Send statements after one has ended that answered so many hits."""
        if self.expected <= 0:  # or a hit could wait for several times GATHER
            self.expected = 0
            self.gathered = self.loop.time() + GATHER
        self.expected += answered
        self.begin_soon()

    def release(self, key: str) -> None:
        """Let the later hits of a key that is no longer under way wait with all others."""
        if later := self.behind.pop(key):
            self.waiting[key] = later

    def fail(self, key: str, hits: Iterable[Hit], error: BaseException) -> None:
        """Set the error of the hits that were sent, and NotSent for the later ones of the key."""
        for _, result, _ in hits:
            if not result.done():
                result.set_exception(error)
        for _, result, _ in self.behind.pop(key):
            if not result.done():
                result.set_exception(not_sent(error))

    def look(self) -> None:
        """Refuse the hits that have waited too long."""
        too_early = self.loop.time() - self.patience
        for hits in chain(self.waiting.values(), self.behind.values()):
            for _, result, since in hits:
                if since > too_early:
                    break
                if not result.done():
                    result.set_exception(TimeoutError())
        wait = self.waiting or any(self.behind.values())
        self.next_look = self.loop.call_later(self.patience / LOOKS, self.look) if wait else None


def not_sent(error: BaseException) -> NotSent:
    """Return the error of a hit that is not sent because of another error."""
    unsent = NotSent()
    unsent.__cause__ = error.__cause__ if isinstance(error, NotSent) else error
    return unsent


def still_wanted(hits: Iterable[Hit]) -> list[Hit]:
    """Return the hits that are neither cancelled nor refused."""
    return [one for one in hits if not one[1].done()]


def tell(hits: Sequence[Hit], counted: Sequence[Any]) -> None:
    """Set the results of the first hits, and None for the others."""
    for number, (_, result, _) in enumerate(hits):
        if not result.done():
            result.set_result(counted[number] if number < len(counted) else None)
