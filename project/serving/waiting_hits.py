"""Hits wait while statements are under way; the next statement counts all of them.

This module knows asyncio and no database: it is given two functions that start statements. One
counts hits of several keys and waits for no row. The other one counts hits of one key and may wait:
it gets what the first one has left out, so that a locked row stops no other key. It also gets a key
that waits when nothing is under way, because its statement is the cheaper one and waits for another
worker's. Where keys are at several places, a frozen place has half of these statements at most.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

TOGETHER = 1  # statements for several keys at a time; more of them would each count fewer hits
ALONE = 4  # statements for one key at a time
SAME_PLACE = ALONE // 2  # of them, for keys at the same place
EVERYWHERE = "everywhere"  # the place of all keys where there is one place
# Seconds after the end of a statement for which the next one waits for as many new hits as were
# told their number. Clients that follow links in turn come again at once, and fewer statements for
# as many hits cost less.
GATHER = 0.003
LOOKS = 4  # how often hits that wait are looked at before they have waited for too long


class Hit(NamedTuple):
    """A hit, what tells its caller what it comes to, and since when it waits."""

    hit: Any
    told: "asyncio.Future[Any]"
    since: float


Batch = dict[str, list[Hit]]  # by key


class Waiting:
    """The hits that wait in this process; for one event loop.

    `together` gets hits by key, and its future has what they come to, by each key that it has
    counted. `alone` gets a key and its hits, and its future has what each comes to that is counted,
    the first ones. `together` gets at most `most_keys` keys. `place` returns where a key is, and
    None where only `together` finds that out. A hit that waits for longer than `patience` seconds
    before it is sent is refused.
    """

    def __init__(
        self,
        together: Callable[[Mapping[str, Sequence[Any]]], "asyncio.Future[Mapping[str, Any]]"],
        alone: Callable[[str, Sequence[Any]], "asyncio.Future[Sequence[Any]]"],
        *,
        most_keys: int,
        patience: float,
        place: Callable[[str], Hashable] = lambda key: EVERYWHERE,
    ) -> None:
        self.together, self.alone, self.place = together, alone, place
        self.most_keys, self.patience = most_keys, patience
        self.free_together, self.free_alone = TOGETHER, ALONE
        self.under_way: Counter[Hashable] = Counter()  # statements for one key, by its place
        # Every hit that is not sent yet is in one of these three.
        self.waiting: Batch = {}
        self.behind: Batch = {}  # by each key that is under way, those that came later
        # For statements of their own, by place; the place that was served last is the last one.
        self.left: dict[Hashable, deque[tuple[str, list[Hit]]]] = {}
        self.expected = 0  # new hits, until `gathered`
        self.gathered = 0.0
        self.begins = False  # in the next round of the event loop
        self.next_begin: asyncio.TimerHandle | None = None
        self.next_look: asyncio.TimerHandle | None = None

    def add(self, key: str, hit: Any) -> "asyncio.Future[Any]":
        """Have a hit counted; the future has what it comes to, None where it is not counted.

        It has the error of the statement, or TimeoutError for a hit that was refused. A hit whose
        future is cancelled before it is sent is not sent.
        """
        loop = asyncio.get_running_loop()
        one = Hit(hit, loop.create_future(), loop.time())
        (self.behind if key in self.behind else self.waiting).setdefault(key, []).append(one)
        self.expected -= 1
        if self.next_look is None:
            self.next_look = loop.call_later(self.patience / LOOKS, self.look)
        self.begin_soon()
        return one.told

    def begin_soon(self) -> None:
        """Send statements when the hits that have come by now are read."""
        if not self.begins:
            self.begins = True
            asyncio.get_running_loop().call_soon(self.begin)

    def begin(self) -> None:
        """Send as many statements as there may be at a time, unless more hits are expected."""
        self.begins = False
        loop = asyncio.get_running_loop()
        if self.expected > 0 and (wait := self.gathered - loop.time()) > 0:
            if self.next_begin is None:
                self.next_begin = loop.call_later(wait, self.begin_late)
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
        for place in [*self.left]:
            self.begin_alone(place)

    def begin_late(self) -> None:
        """Send statements although fewer hits have come than were expected."""
        self.next_begin = None
        self.begin()

    def begin_single(self) -> None:
        """Leave a key that waits when nothing is under way to a statement of its own."""
        if len(self.waiting) == 1 and self.free_together and self.free_alone == ALONE:
            (key,) = self.waiting
            if (place := self.place(key)) is not None:
                self.behind[key] = []
                self.leave(place, key, self.waiting.pop(key))

    def begin_alone(self, place: Hashable) -> None:
        """Send as many statements for one key at this place as there may be."""
        most = ALONE if place == EVERYWHERE else SAME_PLACE
        while place in self.left and self.free_alone and self.under_way[place] < most:
            left = self.left.pop(place)
            key, hits = left.popleft()
            if left:
                self.left[place] = left
            hits, self.behind[key] = still_wanted(hits + self.behind[key]), []
            if hits:
                self.free_alone -= 1
                self.under_way[place] += 1
                counted = self.alone(key, [hit for hit, _, _ in hits])
                counted.add_done_callback(partial(self.end_alone, place, key, hits))
            else:
                self.release(key)

    def leave(self, place: Hashable, key: str, hits: list[Hit]) -> None:
        """Leave the hits of a key to a statement of their own."""
        self.left.setdefault(place, deque()).append((key, hits))

    def end_together(self, batch: Batch, statement: "asyncio.Future[Mapping[str, Any]]") -> None:
        """Tell what was counted; leave the other keys to statements of their own."""
        self.free_together += 1
        if error := statement.exception():
            for key, hits in batch.items():
                self.fail(key, hits, error)
        else:
            counted = statement.result()
            for key, hits in batch.items():
                if key in counted:
                    tell(hits, [counted[key]] * len(hits))
                    self.release(key)
                else:
                    self.leave(self.place(key), key, hits)
        self.begin_after(sum(map(len, batch.values())))

    def end_alone(
        self,
        place: Hashable,
        key: str,
        hits: list[Hit],
        statement: "asyncio.Future[Sequence[Any]]",
    ) -> None:
        """Tell what was counted. A key that more hits wait for by now keeps its own statements.

        Its row is one that others change, too, and would be left out again.
        """
        self.free_alone += 1
        self.under_way[place] -= 1
        if error := statement.exception():
            self.fail(key, hits, error)
        else:
            tell(hits, statement.result())
            if self.behind[key]:
                self.leave(place, key, self.behind[key])
                self.behind[key] = []
            else:
                self.release(key)
        self.begin_after(len(hits))

    def begin_after(self, told: int) -> None:
        """Send statements after one that has ended, and has told so many hits their number."""
        self.expected = max(0, self.expected) + told
        self.gathered = asyncio.get_running_loop().time() + GATHER
        self.begin_soon()

    def release(self, key: str) -> None:
        """Let the hits of a key that is not under way any more wait with all others."""
        if later := self.behind.pop(key):
            self.waiting[key] = later
            self.begin_soon()

    def fail(self, key: str, hits: Iterable[Hit], error: BaseException) -> None:
        """Tell the error to those who were sent, and to those behind them, whose turn it spares."""
        for _, told, _ in (*hits, *self.behind.pop(key)):
            if not told.done():
                told.set_exception(error)

    def look(self) -> None:
        """Refuse the hits that have waited for too long."""
        loop = asyncio.get_running_loop()
        too_early = loop.time() - self.patience
        of_left = (hits for left in self.left.values() for _, hits in left)
        for hits in chain(self.waiting.values(), self.behind.values(), of_left):
            for _, told, since in hits:
                if since > too_early:
                    break
                if not told.done():
                    told.set_exception(TimeoutError())
        wait = self.waiting or self.left or any(self.behind.values())
        self.next_look = loop.call_later(self.patience / LOOKS, self.look) if wait else None


def still_wanted(hits: Iterable[Hit]) -> list[Hit]:
    """Return the hits whose callers have neither gone nor been refused."""
    return [one for one in hits if not one.told.done()]


def tell(hits: Sequence[Hit], counted: Sequence[Any]) -> None:
    """Tell the first callers what was counted for them, and the others that nothing was."""
    for number, (_, told, _) in enumerate(hits):
        if not told.done():
            told.set_result(counted[number] if number < len(counted) else None)
