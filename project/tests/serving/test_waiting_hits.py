"""What waits, what is sent together, and who is told what; the statements are the test's own."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any

import pytest

from project.serving import waiting_hits as waiting
from project.serving.waiting_hits import Waiting

PATIENCE = 10.0  # seconds, many times what any of this takes


class Statements:
    """The statements that a Waiting sends: each ends when the test says so.

    Keys in `locked` are left out by statements for several keys; those in `frozen` end with thaw().
    `uses` are the hits that are counted of a key, and `errors` what a statement raises, by its
    first key.
    """

    def __init__(self, **options: Any) -> None:
        self.sent: list[Any] = []
        self.arrived, self.go = threading.Semaphore(0), threading.Semaphore(0)
        self.thawed = threading.Event()
        self.locked: set[str] = set()
        self.frozen: set[str] = set()
        self.uses: dict[str, int] = {}
        self.errors: dict[str, Exception] = {}
        options = {"most_keys": 3, "patience": PATIENCE, **options}
        self.waiting = Waiting(self.together, self.alone, **options)

    def together(self, hits: Mapping[str, Sequence[Any]]) -> Mapping[str, Any]:
        self.note({key: list(of_key) for key, of_key in hits.items()})
        return {key: key for key in hits if key not in self.locked}

    def alone(self, key: str, hits: Sequence[Any]) -> Sequence[Any]:
        self.note((key, list(hits)))
        return [key] * min(len(hits), self.uses.get(key, len(hits)))

    def note(self, sent: Any) -> None:
        first = next(iter(sent))
        self.sent.append(sent)
        self.arrived.release()
        if isinstance(sent, tuple) and first in self.frozen:
            assert self.thawed.wait(timeout=PATIENCE)
        else:
            assert self.go.acquire(timeout=PATIENCE)
        if error := self.errors.get(first):
            raise error

    def add(self, *keys: str) -> "list[asyncio.Future[Any]]":
        return [self.waiting.add(key, number) for number, key in enumerate(keys)]

    async def under_way(self, statements: int = 1) -> None:
        """Return when that many more have been sent."""
        for _ in range(statements):
            assert await asyncio.to_thread(self.arrived.acquire, timeout=PATIENCE)

    def end(self, statements: int = 1) -> None:
        """Let that many end."""
        self.go.release(statements)


@pytest.fixture
def run() -> Iterator[Callable[[Callable[[Statements], Coroutine[Any, Any, None]]], None]]:
    made: list[Statements] = []

    def start(test: Callable[[Statements], Coroutine[Any, Any, None]], **options: Any) -> None:
        made.append(Statements(**options))
        asyncio.run(asyncio.wait_for(test(made[-1]), PATIENCE))

    yield start
    for each in made:
        each.end(100)
        each.thawed.set()
        each.waiting.together_threads.shutdown()
        each.waiting.alone_threads.shutdown()
        assert not each.waiting.waiting
        assert not each.waiting.behind  # nothing is kept of a key that nobody asks for
        assert not each.waiting.left


def test_the_next_statement_counts_all_that_came_meanwhile(run: Any) -> None:
    async def test(statements: Statements) -> None:
        first = statements.add("a")
        await statements.under_way()
        rest = statements.add("a", "b", "a", "c", "b")
        statements.end()
        assert await asyncio.gather(*first) == ["a"]
        await statements.under_way()
        assert not any(each.done() for each in rest)
        statements.end()
        assert await asyncio.gather(*rest) == ["a", "b", "a", "c", "b"]
        assert statements.sent == [{"a": [0]}, {"b": [1, 4], "c": [3], "a": [0, 2]}]

    run(test)


def test_those_who_come_at_the_same_time_are_counted_by_one_statement(run: Any) -> None:
    async def test(statements: Statements) -> None:
        futures = statements.add("a", "b", "a")
        statements.end()
        await asyncio.gather(*futures)
        assert statements.sent == [{"a": [0, 2], "b": [1]}]

    run(test)


def test_a_statement_has_no_more_keys_than_it_may(run: Any) -> None:
    async def test(statements: Statements) -> None:
        futures = statements.add("a", "b", "c", "d")
        statements.end(2)
        await asyncio.gather(*futures)
        assert statements.sent == [{"a": [0], "b": [1], "c": [2]}, {"d": [3]}]

    run(test)


def test_a_locked_row_has_a_statement_of_its_own_and_stops_no_other_key(run: Any) -> None:
    async def test(statements: Statements) -> None:
        statements.locked = {"a"}
        locked, free = statements.add("a", "b")
        statements.end()
        assert await free == "b"
        await statements.under_way(2)
        assert statements.sent[1] == ("a", [0])
        behind, other = statements.add("a", "c")
        await statements.under_way()
        assert statements.sent[2] == {"c": [1]}
        statements.end(3)
        assert [*await asyncio.gather(locked, other, behind)] == ["a", "c", "a"]
        assert statements.sent[3] == ("a", [0])  # as others change that row, too

    run(test)


def test_more_locked_rows_than_threads_take_turns(run: Any) -> None:
    async def test(statements: Statements) -> None:
        keys = [f"k{number}" for number in range(waiting.ALONE + 1)]
        statements.locked = set(keys)
        futures = statements.add(*keys)
        statements.end()
        await statements.under_way(1 + waiting.ALONE)
        (other,) = statements.add("free")
        await statements.under_way()
        assert statements.sent[-1] == {"free": [0]}
        statements.end(waiting.ALONE + 2)
        assert await asyncio.gather(*futures, other) == [*keys, "free"]

    run(test, most_keys=10)


def test_the_hits_for_which_no_use_is_left_are_told_so(run: Any) -> None:
    async def test(statements: Statements) -> None:
        statements.locked, statements.uses = {"a"}, {"a": 2}
        futures = statements.add("a", "a", "a")
        statements.end(2)
        assert await asyncio.gather(*futures) == ["a", "a", None]

    run(test)


@pytest.mark.parametrize("locked", [set(), {"a"}])
def test_an_error_is_told_to_all_whom_it_concerns(run: Any, locked: set[str]) -> None:
    """To the hits of the statement, and to those behind it, which would meet it, too."""

    async def test(statements: Statements) -> None:
        statements.locked = locked
        futures = statements.add("a", "a")
        if locked:
            statements.end()
            await statements.under_way()
        await statements.under_way()
        statements.errors["a"] = ZeroDivisionError()
        futures += statements.add("a")
        statements.end()
        raised = await asyncio.gather(*futures, return_exceptions=True)
        assert [type(error) for error in raised] == [ZeroDivisionError] * 3
        (other,) = statements.add("b")
        statements.end()
        assert await other == "b"

    run(test)


def test_a_hit_that_waits_for_too_long_is_refused_and_not_sent(run: Any) -> None:
    async def test(statements: Statements) -> None:
        (sent,) = statements.add("a")
        await statements.under_way()
        for each in statements.add("a", "b"):  # one behind its key, one for want of a thread
            with pytest.raises(TimeoutError):
                await each
        statements.end()
        assert await sent == "a"  # what was sent is waited for
        assert statements.sent == [{"a": [0]}]

    run(test, patience=0.01)


def test_a_hit_whose_client_has_left_is_not_sent(run: Any) -> None:
    async def test(statements: Statements) -> None:
        futures = statements.add("a")
        await statements.under_way()
        left, behind, stays = statements.add("b", "a", "b")
        left.cancel()
        behind.cancel()
        futures[0].cancel()  # too late: it was sent
        statements.end(2)
        assert await stays == "b"
        assert statements.sent == [{"a": [0]}, {"b": [2]}]

    run(test)


def test_a_frozen_place_has_half_of_the_threads_and_no_other_key_waits_for_it(run: Any) -> None:
    async def test(statements: Statements) -> None:
        stuck = [f"frozen {number}" for number in range(waiting.SAME_PLACE)]
        statements.locked = {*stuck, "frozen", *"abcd"}
        statements.frozen = {*stuck}
        held = statements.add(*stuck)
        statements.end()
        await statements.under_way(1 + len(stuck))
        (behind,) = statements.add("frozen")
        statements.end()
        await statements.under_way()
        for key in "abcd":
            (live,) = statements.add(key)
            statements.end(2)
            assert await live == key
        assert not behind.done()
        statements.waiting.patience = 0
        statements.waiting.look()
        with pytest.raises(TimeoutError):
            await behind
        statements.thawed.set()
        assert await asyncio.gather(*held) == stuck
        assert ("frozen", [0]) not in statements.sent

    run(test, place=lambda key: key.split()[0])


def test_places_take_turns(run: Any) -> None:
    """Where there are more of them than threads, those that were not served are first."""

    async def test(statements: Statements) -> None:
        keys = ["a1", "a2", "a3", "b1", "b2", "b3", "c1"]
        statements.locked = {*keys}
        futures = statements.add(*keys)
        statements.end()
        await statements.under_way(1 + waiting.ALONE)
        assert {key for key, _ in statements.sent[1:]} == {"a1", "a2", "b1", "b2"}
        statements.end()
        await statements.under_way()
        assert statements.sent[-1] == ("c1", [6])
        statements.end(len(keys) - 1)
        assert await asyncio.gather(*futures) == keys

    run(test, most_keys=10, place=lambda key: key[0])
