"""Write a correct `resolve`: `pytest lab/exercises/resolve.py` tests it.

`resolve` counts one hit and returns the short URL. It raises ShortUrl.DoesNotExist for a key that
leads nowhere: one that is unknown, deleted, expired or used up. live() leaves all of these out.

The function below reads, adds one, and writes. Which of its statements can use an old value? Which
columns does it write? Which statement should check how many uses are left?
"""

from functools import partial
from typing import Any

import pytest

from lab.exercises import judging as judge
from pginterleave import Outcome
from shorturl.models import ShortUrl


def resolve(key: str) -> ShortUrl:
    short_url = ShortUrl.objects.live().get(key=key)
    short_url.hits += 1
    short_url.save()
    return short_url


# The tests. Do not change anything below.


def follow() -> ShortUrl:
    return resolve("a")


def all_count(outcomes: list[Outcome], **edited: Any) -> str:
    """Check the hits when all processes have followed `a`, except a last one that `edited` it."""
    followed = len(outcomes) - bool(edited)
    for process, each in enumerate(outcomes[:followed], 1):
        if getattr(each.returned, "key", None) != "a":
            return f"process {process} follows a, and gets {each.returned!r}"
    wrong = judge.changed(a={"hits": followed, **edited})
    return f"{followed} have followed a, and {wrong}" if wrong else ""


def test_one_follows_a_link(interleave: Any) -> None:
    """The hit is counted, and nothing else changes."""
    interleave(follow, invariant=all_count)


def test_one_follows_it_twice(interleave: Any) -> None:
    """A process must not answer the second call from memory."""
    twice = lambda: [follow(), follow()]  # noqa: E731
    both_count = lambda _: judge.changed(a={"hits": 2})  # noqa: E731
    interleave(twice, invariant=both_count)


@pytest.mark.parametrize("key", ["missing", *judge.NOWHERE])
def test_a_key_that_leads_nowhere(interleave: Any, key: str) -> None:
    gone = ShortUrl.DoesNotExist
    interleave(lambda: resolve(key), expected=gone, invariant=judge.no_link(gone))


def test_two_follow_it_at_once(interleave: Any) -> None:
    interleave(follow, follow, invariant=all_count)


def test_three_follow_it_at_once(interleave: Any) -> None:
    interleave(follow, follow, follow, invariant=all_count)


@pytest.mark.parametrize("limit", [1, 2])
def test_two_want_the_last_uses(interleave: Any, limit: int) -> None:
    """A process gets DoesNotExist only if no use is left."""
    gone = ShortUrl.DoesNotExist

    def as_often_as_it_may(outcomes: list[Outcome]) -> str:
        got = [each for each in outcomes if each.raised is None]
        if len(got) != limit:
            return f"a has {limit} uses left, and {len(got)} of 2 have followed it"
        return all_count(got)

    setup = judge.links(max_hits=limit)
    interleave(follow, follow, setup=setup, invariant=as_often_as_it_may, expected=gone)


def test_two_follow_it_in_transactions_of_their_callers(interleave: Any) -> None:
    call = judge.in_a_transaction(follow)
    interleave(call, call, invariant=all_count)


def test_the_callers_transaction_is_rolled_back(interleave: Any) -> None:
    interleave(judge.rolls_back(follow), invariant=judge.undone())


@pytest.mark.parametrize("edited", [{"target_url": judge.TARGET.format("new")}, {"max_hits": 9}])
def test_another_process_edits_it(interleave: Any, edited: dict[str, Any]) -> None:
    """The edit stays, and the hit is counted."""
    edit = partial(ShortUrl.objects.filter(key="a").update, **edited)
    interleave(follow, edit, invariant=partial(all_count, **edited))


@pytest.mark.parametrize("end", [judge.NOWHERE["deleted"], judge.NOWHERE["expired"]])
def test_another_process_ends_it(interleave: Any, end: dict[str, Any]) -> None:
    """The link is deleted or expires: a hit counts before that, and none is counted later."""

    def ends() -> int:
        ShortUrl.objects.filter(key="a").update(**end)
        return ShortUrl.objects.get(key="a").hits

    def none_later(outcomes: list[Outcome]) -> str:
        followed, then = int(outcomes[0].raised is None), outcomes[1].returned
        wrong = judge.changed(a={"hits": then, **end}) or judge.changed(a={"hits": followed, **end})
        return f"a ended with {then} hits, {followed} followed it, and {wrong}" if wrong else ""

    gone = ShortUrl.DoesNotExist
    interleave(follow, ends, invariant=none_later, expected=gone)


def test_an_error_of_the_database_is_raised(interleave: Any) -> None:
    judge.errors_are_raised(interleave, follow, meant=ShortUrl.DoesNotExist)


def test_plain_threads_follow_it(interleave: Any) -> None:
    """Without the explorer."""
    interleave(follow, invariant=all_count)
    judge.links()()
    told = judge.in_threads(lambda _: follow())
    followed = sum(isinstance(each, ShortUrl) for each in told)
    if wrong := judge.changed(a={"hits": followed}):
        judge.refuse(f"Threads have followed a {followed} times, and {wrong}.")
