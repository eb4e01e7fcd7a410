"""Which hits wait, which statement counts them, and their results; the tests end the statements."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from project.serving import hit_counter
from project.serving.hit_counter import FAILURE_SECONDS, MAX_KEY_STATEMENTS, HitCounter
from shorturl.exceptions import RowLocked

LONG = 10.0  # seconds, many times the longest test
ROUNDS = 100  # of the event loop: many times as many as any step takes


class Visit(NamedTuple):
    number: int
    is_bot: bool = False


class Statements:
    """The statements of a HitCounter, which wait until the test ends them.

    `sent` has {key: numbers of its hits} for each statement for several keys, and (key, numbers)
    for each statement for one key. Statements for several keys skip those in `locked`. `uses` has
    the uses that are left of links with a limit; bots do not use them.
    """

    def __init__(self, queue_timeout: float) -> None:
        self.sent: list[Any] = []
        self.under_way: list[asyncio.Future[None]] = []
        self.locked: set[str] = set()
        self.uses: dict[str, int] = {}
        self.counter = HitCounter(self.count_keys, self.count_key, queue_timeout=queue_timeout)

    async def count_keys(self, visits: Mapping[str, Sequence[Visit]]) -> dict[str, str]:
        await self.wait_for_end({key: list_numbers(of_key) for key, of_key in visits.items()})
        return {key: key for key in visits if key not in self.locked}

    async def count_key(self, key: str, visits: Sequence[Visit]) -> str | None:
        await self.wait_for_end((key, list_numbers(visits)))
        if key in self.uses:
            if len(visits) > self.uses[key] or any(visit.is_bot for visit in visits):
                return None
            self.uses[key] -= len(visits)
        return key

    async def wait_for_end(self, statement: object) -> None:
        self.sent.append(statement)
        self.under_way.append(asyncio.get_running_loop().create_future())
        await self.under_way[-1]

    async def add(self, *keys: str, bots: Sequence[int] = ()) -> "list[asyncio.Task[Any]]":
        """Add a hit of each key, numbered from 0, and wait until no more statements are sent."""
        tasks = [
            asyncio.create_task(self.counter.count(key, Visit(number, number in bots)))
            for number, key in enumerate(keys)
        ]
        await self.run_event_loop()
        return tasks

    async def end(self, number: int = 1, error: Exception | None = None) -> None:
        """End the statements that were sent first."""
        for _ in range(number):
            statement = self.under_way.pop(0)
            statement.set_exception(error) if error else statement.set_result(None)
        await self.run_event_loop()

    async def end_all(self) -> None:
        while self.counter.waiting_task or self.counter.key_tasks:
            await self.end(len(self.under_way))

    async def run_event_loop(self) -> None:
        for _ in range(ROUNDS):
            await asyncio.sleep(0)


Test = Callable[[Statements], Coroutine[Any, Any, None]]


def list_numbers(visits: Sequence[Visit]) -> list[int]:
    return [visit.number for visit in visits]


def run(
    test: Test, *, gather: float = 0, queue_timeout: float = LONG, key_statement: float = LONG
) -> None:
    """Run a test on an event loop with these time limits; then no hit waits, and no key is kept."""

    async def run_and_clean_up() -> None:
        statements = Statements(queue_timeout)
        await test(statements)
        counter = statements.counter
        while counter.waiting_task or counter.key_tasks:  # until the run's time limit
            counter.gathered.set()
            await asyncio.sleep(0)
        assert not statements.under_way
        assert not counter.waiting | counter.waiting_alone

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hit_counter, "KEY_STATEMENT_SECONDS", key_statement)
        patch.setattr(hit_counter, "GATHER_SECONDS", gather)
        asyncio.run(asyncio.wait_for(run_and_clean_up(), LONG))


@pytest.mark.parametrize(
    ("first", "rest", "sent"),  # the keys of hits before and during a statement
    [
        ("ad", "abacb", [{"a": [0], "d": [1]}, {"a": [0, 2], "b": [1, 4], "c": [3]}]),
        ("aa", "a", [("a", [0, 1]), ("a", [0])]),
        ("abcde", "", [{"a": [0], "b": [1], "c": [2]}, {"d": [3], "e": [4]}]),
    ],
    ids=["several keys", "one key, with its cheaper statement", "more than MAX_KEYS, which is 3"],
)
def test_the_next_statement_counts_all_hits_that_came_meanwhile(
    monkeypatch: pytest.MonkeyPatch, first: str, rest: str, sent: list[Any]
) -> None:
    async def test(statements: Statements) -> None:
        tasks = await statements.add(*first)
        tasks += await statements.add(*rest)
        assert statements.sent == sent[:1]
        await statements.end()
        assert statements.sent == sent
        await statements.end()
        assert await asyncio.gather(*tasks) == [*first, *rest]

    monkeypatch.setattr(hit_counter, "MAX_KEYS", 3)
    run(test)


@pytest.mark.parametrize("keys", ["aaa", "aba", "abc"])
def test_after_a_statement_the_next_one_waits_for_as_many_hits_again(keys: str) -> None:
    async def test(statements: Statements) -> None:
        await statements.add(*keys)  # three hits, so the next statement waits for three
        again = await statements.add(keys[0])
        await statements.end()
        again += await statements.add(keys[1])
        assert len(statements.sent) == 1
        again += await statements.add(keys[2])
        assert len(statements.sent) == 2
        await statements.end()
        assert await asyncio.gather(*again) == [*keys]

    run(test, gather=LONG)


def test_a_statement_for_one_key_delays_other_keys_for_some_milliseconds_only() -> None:
    """The row of that key may be locked."""

    async def test(statements: Statements) -> None:
        statements.locked = {"a"}
        tasks = await statements.add("a")
        tasks += await statements.add("b", "a")
        assert statements.sent == [("a", [0])]  # the other two hits wait
        while len(statements.sent) == 1:  # until KEY_STATEMENT_SECONDS have passed
            await asyncio.sleep(0)
        assert statements.sent[1:] == [{"b": [0], "a": [1]}]
        await statements.end(2)
        assert statements.sent[2:] == [("a", [1])]  # the second statement has skipped a
        await statements.end()
        assert await asyncio.gather(*tasks) == ["a", "b", "a"]

    run(test, key_statement=0.2)


def test_hits_of_two_batches_wait_for_one_locked_row_and_delay_no_other_key() -> None:
    async def test(statements: Statements) -> None:
        statements.locked = {"a"}
        tasks = await statements.add("a", "b")
        await statements.end()
        for _ in range(2):
            tasks += await statements.add("a", "c")
            statements.under_way.pop().set_result(None)  # of these two; that of a alone goes on
            await statements.run_event_loop()
        assert await asyncio.gather(*tasks[1::2]) == ["b", "c", "c"]
        await statements.end_all()
        assert await asyncio.gather(*tasks) == [*"abacac"]
        assert statements.sent[-1] == ("a", [0, 0])

    run(test)


def test_more_locked_rows_than_statements_take_turns() -> None:
    async def test(statements: Statements) -> None:
        keys = [f"k{number}" for number in range(MAX_KEY_STATEMENTS + 1)]
        statements.locked = {*keys}
        tasks = await statements.add(*keys)
        await statements.end()  # the statement for all keys, which has skipped each of them
        assert len(statements.sent) == 1 + MAX_KEY_STATEMENTS
        tasks += await statements.add("free")
        assert statements.sent[-1] == {"free": [0]}
        await statements.end_all()
        assert await asyncio.gather(*tasks) == [*keys, "free"]

    run(test)


# Two uses are left. The numbers of the bots' hits, the result of each hit, and the hits of each
# statement: all together first, and if the uses do not suffice, one after another.
@pytest.mark.parametrize(
    ("bots", "rows", "sent"),
    [
        ([], ["a", "a", None], [[0, 1, 2], [0], [1], [2]]),
        ([], ["a", "a", None, None], [[0, 1, 2, 3], [0], [1], [2]]),
        ([0, 1], [None, None], [[0, 1]]),
        ([0], [None, "a"], [[0, 1], [1]]),
    ],
    ids=["three people", "four people, none tried after the first refusal", "bots", "a bot first"],
)
def test_people_get_the_uses_that_are_left_one_by_one_and_bots_none(
    bots: list[int], rows: list[Any], sent: list[Any]
) -> None:
    async def test(statements: Statements) -> None:
        statements.uses = {"a": 2}
        tasks = await statements.add(*"a" * len(rows), bots=bots)
        await statements.end_all()
        assert await asyncio.gather(*tasks) == rows
        assert statements.sent == [("a", numbers) for numbers in sent]

    run(test)


def test_counted_hits_are_answered_although_a_later_one_fails() -> None:
    async def test(statements: Statements) -> None:
        statements.uses = {"a": 2}
        tasks = await statements.add("a", "a", "a")
        await statements.end()  # there are not three uses, so the hits are tried one by one
        await statements.end()
        error = ZeroDivisionError()
        await statements.end(error=error)
        assert await asyncio.gather(*tasks, return_exceptions=True) == ["a", error, error]

    run(test)


@pytest.mark.parametrize(
    ("error", "is_failing"),
    [(ZeroDivisionError(), True), (RowLocked("a"), False)],
    ids=["a failure", "a locked row"],
)
@pytest.mark.parametrize("keys_of_next", ["a", "ab"], ids=["one key", "two keys"])
def test_all_hits_of_a_statement_get_its_error_and_three_failures_in_a_row_are_noticed(
    error: Exception, keys_of_next: str, *, is_failing: bool
) -> None:
    async def test(statements: Statements) -> None:
        for keys in ("ab", "a", "ab"):
            assert not statements.counter.is_failing()
            tasks = await statements.add(*keys)
            await statements.end(error=error)
            assert {*await asyncio.gather(*tasks, return_exceptions=True)} == {error}
        assert statements.counter.is_failing() is is_failing
        statements.counter.failed_at -= FAILURE_SECONDS  # nobody sends redirects to it meanwhile
        assert not statements.counter.is_failing()
        statements.counter.failed_at += FAILURE_SECONDS
        again = await statements.add(*keys_of_next)
        await statements.end()
        assert await asyncio.gather(*again) == [*keys_of_next]
        assert not statements.counter.is_failing()

    run(test)


@pytest.mark.parametrize(
    ("first", "late"), [("ab", "ac"), ("a", "a")], ids=["several keys", "one key"]
)
def test_a_hit_that_waits_too_long_for_a_statement_is_refused_and_not_sent(
    first: str, late: str
) -> None:
    """The hits of a statement that was sent are waited for, and a hit that came later waits on.

    Nothing is left of a refused hit, so that a long outage costs no more time than a short one.
    """

    async def test(statements: Statements) -> None:
        tasks = await statements.add(*first)
        late_tasks = await statements.add(*late)
        statements.counter.queue_timeout = LONG
        tasks += await statements.add(late[0])
        for refused in late_tasks:
            with pytest.raises(TimeoutError):
                await refused
        waiting = statements.counter.waiting | statements.counter.waiting_alone
        assert [len(hits) for hits in waiting.values()] == [1]
        await statements.end_all()
        assert await asyncio.gather(*tasks) == [*first, late[0]]
        assert len(statements.sent) == 2

    run(test, queue_timeout=0.1, key_statement=0.01)


def test_a_hit_that_waits_too_long_behind_other_locked_rows_is_refused_and_not_sent() -> None:
    async def test(statements: Statements) -> None:
        keys = [f"k{number}" for number in range(MAX_KEY_STATEMENTS + 1)]
        statements.locked = {*keys}
        *tasks, refused = await statements.add(*keys)
        await statements.end()  # so that each locked row needs a statement of its own
        with pytest.raises(TimeoutError):
            await refused
        assert not statements.counter.waiting_alone
        await statements.end_all()
        assert await asyncio.gather(*tasks) == keys[:-1]
        assert len(statements.sent) == 1 + MAX_KEY_STATEMENTS

    run(test, queue_timeout=0.01)


def test_a_key_that_comes_behind_locked_rows_is_sent_by_the_statement_that_skips_these() -> None:
    """The tasks of the locked rows are made and have not begun when the next key is looked at."""

    async def test(statements: Statements) -> None:
        keys = [f"k{number}" for number in range(MAX_KEY_STATEMENTS)]
        statements.locked = {*keys}
        tasks = await statements.add(*keys)
        tasks += await statements.add("free")
        await statements.end()
        sent_alone = [(key, [number]) for number, key in enumerate(keys)]
        assert statements.sent[1:] == [{"free": [0]}, *sent_alone]
        await statements.end_all()
        assert await asyncio.gather(*tasks) == [*keys, "free"]

    run(test)


def test_a_hit_whose_client_has_left_is_not_sent() -> None:
    async def test(statements: Statements) -> None:
        sent, other = await statements.add("a", "c")
        left, also_left, stays = await statements.add("b", "a", "b")
        for task in (left, also_left, sent):  # for the last one it is too late
            task.cancel()
        await statements.end_all()
        assert await asyncio.gather(*[other, stays]) == ["c", "b"]
        assert statements.sent == [{"a": [0], "c": [1]}, ("b", [2])]

    run(test)
