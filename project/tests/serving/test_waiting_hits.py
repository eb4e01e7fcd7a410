"""Which hits wait, which are sent together, and their results; the tests make the statements."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any

import pytest

from project.serving import waiting_hits
from project.serving.waiting_hits import ALONE, TOGETHER, NotSent, Waiting

PATIENCE = 10.0  # seconds, many times the longest test


class Statements:
    """The statements that a Waiting sends: the test ends each of them.

    Statements for several keys leave out the keys in `locked`. `uses` limits the counted hits of a
    key.
    """

    def __init__(self, **options: Any) -> None:
        self.sent: list[Any] = []
        self.open: deque[tuple[asyncio.Future[Any], Any]] = deque()
        self.locked: set[str] = set()
        self.uses: dict[str, int] = {}
        options = {"most_keys": 3, "patience": PATIENCE, **options}
        self.waiting = Waiting(self.together, self.alone, **options)

    def together(self, hits: Mapping[str, Sequence[Any]]) -> "asyncio.Future[Any]":
        self.sent.append({key: list(of_key) for key, of_key in hits.items()})
        return self.statement({key: key for key in hits if key not in self.locked})

    def alone(self, key: str, hits: Sequence[Any]) -> "asyncio.Future[Any]":
        self.sent.append((key, list(hits)))
        return self.statement([key] * min(len(hits), self.uses.get(key, len(hits))))

    def statement(self, result: Any) -> "asyncio.Future[Any]":
        future = asyncio.get_running_loop().create_future()
        self.open.append((future, result))
        return future

    async def add(self, *keys: str) -> "list[asyncio.Future[Any]]":
        """Add a hit of each key, and wait until all possible statements are sent."""
        told = [self.waiting.add(key, number) for number, key in enumerate(keys)]
        await self.rounds()
        return told

    async def end(self, number: int = 1, error: Exception | None = None, of: Any = None) -> None:
        """End the statements that were sent first, or the one whose result is `of`."""
        if of is not None:
            self.open.rotate(-[result for _, result in self.open].index(of))
        for _ in range(number):
            future, result = self.open.popleft()
            future.set_exception(error) if error else future.set_result(result)
        await self.rounds()

    async def rounds(self) -> None:
        for _ in range(5):  # more rounds than any step takes
            await asyncio.sleep(0)


Test = Callable[[Statements], Coroutine[Any, Any, None]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Test], None]]:
    """Run a test on an event loop; `gather` replaces GATHER, by default with 0."""
    made: list[Statements] = []

    async def whole(test: Test, **options: Any) -> None:
        made.append(Statements(**options))
        await test(made[-1])

    def start(test: Test, *, gather: float = 0, **options: Any) -> None:
        monkeypatch.setattr(waiting_hits, "GATHER", gather)
        asyncio.run(asyncio.wait_for(whole(test, **options), PATIENCE))

    yield start
    for each in made:
        assert not each.open
        assert not each.waiting.waiting
        assert not each.waiting.behind  # no key without hits is remembered
        assert not each.waiting.for_alone
        assert each.waiting.free_together == TOGETHER
        assert each.waiting.free_alone == ALONE


def test_the_next_statement_counts_all_hits_that_came_meanwhile(run: Any) -> None:
    async def test(statements: Statements) -> None:
        first = await statements.add("a", "d")
        rest = await statements.add("a", "b", "a", "c", "b")
        await statements.end()
        assert await asyncio.gather(*first) == ["a", "d"]
        assert not any(each.done() for each in rest)
        await statements.end()
        assert await asyncio.gather(*rest) == ["a", "b", "a", "c", "b"]
        assert statements.sent[1:] == [{"b": [1, 4], "c": [3], "a": [0, 2]}]

    run(test)


@pytest.mark.parametrize("keys", ["aaa", "aba", "abc"])
def test_after_a_statement_the_next_one_waits_for_as_many_hits_again(run: Any, keys: str) -> None:
    async def test(statements: Statements) -> None:
        await statements.add(*keys)
        meanwhile = await statements.add("a")
        await statements.end()
        again = [await statements.add(key) for key in keys[1:]]
        assert len(statements.sent) == 1
        again += [meanwhile, await statements.add("a")]
        await statements.end()
        assert len(statements.sent) == 2
        assert all(told.done() for (told,) in again)

    run(test, gather=PATIENCE)


def test_and_not_longer_than_gather(run: Any) -> None:
    async def test(statements: Statements) -> None:
        await statements.add("a", "b")
        await statements.end()
        await statements.add("a")
        while len(statements.sent) == 1:  # until the run's time limit
            await asyncio.sleep(0)
        await statements.end()

    run(test, gather=0.01)


def test_a_key_that_waits_alone_gets_a_separate_statement(run: Any) -> None:
    async def test(statements: Statements) -> None:
        first = await statements.add("a", "a")
        second = await statements.add("b", "a")  # something is under way
        assert statements.sent == [("a", [0, 1]), {"b": [0]}]
        await statements.end(2)
        assert statements.sent[2:] == [("a", [1])]
        await statements.end()
        assert await asyncio.gather(*first, *second) == ["a", "a", "b", "a"]

    run(test)


def test_a_statement_has_at_most_most_keys(run: Any) -> None:
    async def test(statements: Statements) -> None:
        await statements.add("a", "b", "c", "d", "e")
        await statements.end()
        await statements.end()
        assert statements.sent == [{"a": [0], "b": [1], "c": [2]}, {"d": [3], "e": [4]}]

    run(test)


def test_a_locked_row_gets_a_separate_statement_and_delays_no_other_key(run: Any) -> None:
    async def test(statements: Statements) -> None:
        statements.locked = {"a"}
        locked, free = await statements.add("a", "b")
        await statements.end()
        assert await free == "b"
        assert statements.sent[1:] == [("a", [0])]
        behind, other = await statements.add("a", "c")
        assert statements.sent[2:] == [{"c": [1]}]
        await statements.end(2)
        assert statements.sent[3:] == [("a", [0])]  # other sessions change this row, too
        await statements.end()
        assert [*await asyncio.gather(locked, other, behind)] == ["a", "c", "a"]

    run(test)


def test_a_locked_row_waits_for_no_other_hits_and_they_do_not_wait_for_it(run: Any) -> None:
    async def test(statements: Statements) -> None:
        keys = [f"k{number}" for number in range(ALONE)]
        statements.locked = set(keys)
        *held, free = await statements.add(*keys, "free")
        await statements.end()
        assert await free == "free"
        assert statements.sent[1:] == [(key, [number]) for number, key in enumerate(keys)]
        (again,) = await statements.add("free")  # one was answered, and one has come
        assert statements.sent[1 + ALONE :] == [{"free": [0]}]
        await statements.end(ALONE + 1)
        assert await asyncio.gather(*held, again) == [*keys, "free"]

    run(test, gather=PATIENCE, most_keys=10)


def test_a_key_with_many_hits_does_not_queue_behind_locked_rows(run: Any) -> None:
    async def test(statements: Statements) -> None:
        (first,) = await statements.add("hot")
        keys = [f"k{number}" for number in range(ALONE + 1)]
        statements.locked = set(keys)
        held = await statements.add(*keys)
        (later,) = await statements.add("hot")
        await statements.end(of={})  # of which each key is left to `alone`
        await statements.end(of=["hot"])
        assert await first == "hot"
        assert {"hot": [0]} in statements.sent
        while statements.open:
            await statements.end()
        assert await asyncio.gather(later, *held) == ["hot", *keys]

    run(test, most_keys=10)


def test_hits_of_a_locked_row_are_counted_before_later_ones_of_its_key(run: Any) -> None:
    async def test(statements: Statements) -> None:
        statements.locked, statements.uses = {"a"}, {"a": 1}
        locked, _ = await statements.add("a", "b")
        (later,) = await statements.add("a")
        await statements.end()
        await statements.end()
        assert [*await asyncio.gather(locked, later)] == ["a", None]

    run(test)


def test_more_locked_rows_than_statements_take_turns(run: Any) -> None:
    async def test(statements: Statements) -> None:
        keys = [f"k{number}" for number in range(ALONE + 1)]
        statements.locked = set(keys)
        futures = await statements.add(*keys)
        await statements.end()
        assert len(statements.sent) == 1 + ALONE
        futures += await statements.add("free")
        assert statements.sent[-1] == {"free": [0]}
        await statements.end(ALONE + 1)
        await statements.end()
        assert await asyncio.gather(*futures) == [*keys, "free"]

    run(test, most_keys=10)


def test_hits_beyond_the_last_use_get_none(run: Any) -> None:
    async def test(statements: Statements) -> None:
        statements.uses = {"a": 2}
        futures = await statements.add("a", "a", "a")
        await statements.end()
        assert await asyncio.gather(*futures) == ["a", "a", None]

    run(test)


@pytest.mark.parametrize("locked", [set(), {"a"}])
def test_an_error_is_set_for_all_hits_of_the_key(run: Any, locked: set[str]) -> None:
    """The later ones, which would meet it, too, are told that they were not sent."""

    async def test(statements: Statements) -> None:
        statements.locked = locked
        futures = await statements.add("a", "b", "a")
        if locked:
            await statements.end()
        futures += await statements.add("a")
        await statements.end(error=ZeroDivisionError())
        raised = await asyncio.gather(*futures, return_exceptions=True)
        later = raised.pop()
        assert isinstance(later, NotSent)
        assert isinstance(later.__cause__, ZeroDivisionError)
        told = ["b"] if locked else []
        assert [each for each in raised if not isinstance(each, ZeroDivisionError)] == told
        (other,) = await statements.add("b")
        await statements.end()
        assert await other == "b"

    run(test)


def test_a_hit_that_waits_for_too_long_is_refused_and_not_sent(run: Any) -> None:
    async def test(statements: Statements) -> None:
        sent = await statements.add("a", "b")
        for each in await statements.add(
            "a", "c"
        ):  # one waits behind its key, one for a free statement
            with pytest.raises(TimeoutError):
                await each
        await statements.end()
        assert await asyncio.gather(*sent) == ["a", "b"]  # what was sent is waited for
        assert statements.sent == [{"a": [0], "b": [1]}]

    run(test, patience=0.01)


def test_a_hit_whose_client_has_left_is_not_sent(run: Any) -> None:
    async def test(statements: Statements) -> None:
        sent, other = await statements.add("a", "c")
        left, behind, stays = await statements.add("b", "a", "b")
        left.cancel()
        behind.cancel()
        sent.cancel()  # too late: it was sent
        await statements.end()
        await statements.end()
        assert [*await asyncio.gather(other, stays)] == ["c", "b"]
        assert statements.sent == [{"a": [0], "c": [1]}, {"b": [2]}]

    run(test)
