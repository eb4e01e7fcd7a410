"""Hits wait while statements are under way; the next statement counts all of them.

This module knows asyncio and no database: it is given two functions that send statements. One
counts hits of several keys and waits for no link. What it leaves out, another one counts, one key
at a time, and that may wait: a locked row occupies one of its threads, and stops no other key.
Where keys are at several places, a frozen place occupies half of the threads at most.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

TOGETHER = 1  # statements for several keys at a time; more of them would each count fewer hits
ALONE = 4  # statements for one key at a time
SAME_PLACE = ALONE // 2  # of them, for keys at the same place
LOOKS = 4  # how often hits that wait are looked at before they have waited for too long


class Hit(NamedTuple):
    """A hit, what tells its caller what it comes to, and since when it waits."""

    hit: Any
    told: "asyncio.Future[Any]"
    since: float


Batch = dict[str, list[Hit]]  # by key


class Waiting:
    """The hits that wait in this process; for one event loop.

    `together` gets hits by key, and returns what they come to for the keys that it has counted.
    `alone` gets a key and its hits, and returns what each comes to that is counted, the first ones.
    `together` gets at most `most_keys` keys. `place` returns where a key is that `together` has
    left out, and None where that does not matter. A hit that waits for longer than `patience`
    seconds before it is sent is refused.
    """

    def __init__(
        self,
        together: Callable[[Mapping[str, Sequence[Any]]], Mapping[str, Any]],
        alone: Callable[[str, Sequence[Any]], Sequence[Any]],
        *,
        most_keys: int,
        patience: float,
        place: Callable[[str], Hashable] = lambda key: None,
    ) -> None:
        self.together, self.alone, self.place = together, alone, place
        self.most_keys, self.patience = most_keys, patience
        self.together_threads = ThreadPoolExecutor(TOGETHER, "together")
        self.alone_threads = ThreadPoolExecutor(ALONE, "alone")
        self.free_together, self.free_alone = TOGETHER, ALONE
        self.under_way: Counter[Hashable] = Counter()  # statements for one key, by its place
        # Every hit that is not sent yet is in one of these three.
        self.waiting: Batch = {}
        self.behind: Batch = {}  # by each key that is under way, those that came later
        # For statements of their own, by place; the place that was served last is the last one.
        self.left: dict[Hashable, deque[tuple[str, list[Hit]]]] = {}
        self.begins = False
        self.next_look: asyncio.TimerHandle | None = None

    def add(self, key: str, hit: Any) -> "asyncio.Future[Any]":
        """Have a hit counted; the future has what it comes to, None where it is not counted.

        It has the error of the statement, or TimeoutError for a hit that was refused. A hit whose
        future is cancelled before it is sent is not sent.
        """
        loop = asyncio.get_running_loop()
        one = Hit(hit, loop.create_future(), loop.time())
        (self.behind if key in self.behind else self.waiting).setdefault(key, []).append(one)
        if self.next_look is None:
            self.next_look = loop.call_later(self.patience / LOOKS, self.look)
        self.begin_soon()
        return one.told

    def begin_soon(self) -> None:
        """Send statements when the requests that came at the same time are read, too."""
        if not self.begins:
            self.begins = True
            asyncio.get_running_loop().call_soon(self.begin)

    def begin(self) -> None:
        """Send as many statements as there are threads for them."""
        self.begins = False
        loop = asyncio.get_running_loop()
        while self.waiting and self.free_together:
            keys = [*islice(self.waiting, self.most_keys)]
            taken = {key: still_wanted(self.waiting.pop(key)) for key in keys}
            if batch := {key: hits for key, hits in taken.items() if hits}:
                self.behind.update({key: [] for key in batch})
                self.free_together -= 1
                sent = {key: [hit for hit, _, _ in hits] for key, hits in batch.items()}
                statement = loop.run_in_executor(self.together_threads, self.together, sent)
                statement.add_done_callback(partial(self.end_together, batch))
        for place in [*self.left]:
            self.begin_alone(place)

    def begin_alone(self, place: Hashable) -> None:
        """Send as many statements for one key at this place as there may be."""
        most = ALONE if place is None else SAME_PLACE
        while place in self.left and self.free_alone and self.under_way[place] < most:
            left = self.left.pop(place)
            key, hits = left.popleft()
            if left:
                self.left[place] = left
            if hits := still_wanted(hits):
                self.free_alone -= 1
                self.under_way[place] += 1
                of_key = [hit for hit, _, _ in hits]
                loop = asyncio.get_running_loop()
                counted = loop.run_in_executor(self.alone_threads, self.alone, key, of_key)
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
        self.begin_soon()

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
