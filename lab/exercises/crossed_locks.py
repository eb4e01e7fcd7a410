"""Fix the caller: `pytest lab/exercises/crossed_locks.py` tests it.

`resolve_both` resolves two keys in one transaction, so that both hits count or neither does. It
returns the short URLs in the order of its arguments. Do not change update_returning, which is
correct: its UPDATE locks the row until the COMMIT of the caller.

What happens when one process resolves "a" and "b", and another resolves "b" and "a"? There is more
than one solution. Look for one in which neither process gets an error.
"""

from typing import Any

import pytest
from django.db import transaction

from lab.exercises import judging as judge
from pginterleave import Outcome
from shorturl.models import ShortUrl
from shorturl.strategies.resolving import update_returning


def resolve_both(first: str, second: str) -> tuple[ShortUrl, ShortUrl]:
    with transaction.atomic():
        return update_returning.resolve(first), update_returning.resolve(second)


# The tests. Do not change anything below.

PAIRS = [("a", "b"), ("b", "a"), ("a", "b")]


def resolves(first: str, second: str) -> Any:
    return lambda: resolve_both(first, second)


def all_have_both(outcomes: list[Outcome]) -> str:
    """Check that each process gets both links in the order of its keys, and that all hits count."""
    for process, (each, due) in enumerate(zip(outcomes, PAIRS, strict=False), 1):
        listed = each.returned if isinstance(each.returned, tuple | list) else ()
        if tuple(getattr(link, "key", "") for link in listed) != due:
            return f"process {process} resolves {due}, and gets {each.returned!r}"
    number = len(outcomes)
    wrong = judge.changed(a={"hits": number}, b={"hits": 7 + number})
    return f"{number} have resolved both, and {wrong}" if wrong else ""


def race(interleave: Any, number: int, wrap: Any = lambda call: call) -> None:
    calls = [wrap(resolves(*each)) for each in PAIRS[:number]]
    interleave(*calls, invariant=all_have_both)


def test_one_resolves_both(interleave: Any) -> None:
    interleave(resolves("a", "b"), invariant=all_have_both)


def test_one_resolves_the_same_key_twice(interleave: Any) -> None:
    def counted_twice(outcomes: list[Outcome]) -> str:
        keys = [getattr(each, "key", each) for each in outcomes[0].returned]
        wrong = f"{keys} is returned, expected ['a', 'a']"
        return judge.changed(a={"hits": 2}) if keys == ["a", "a"] else wrong

    interleave(resolves("a", "a"), invariant=counted_twice)


@pytest.mark.parametrize("keys", [("a", "missing"), ("missing", "a"), ("b", "expired")])
def test_one_of_the_keys_leads_nowhere(interleave: Any, keys: tuple[str, str]) -> None:
    """Neither hit counts."""
    gone = (ShortUrl.DoesNotExist, ShortUrl.Gone)

    def none_counts(outcomes: list[Outcome]) -> str:
        if not isinstance(outcomes[0].raised, gone):
            return judge.no_link(ShortUrl.DoesNotExist)(outcomes)
        wrong = judge.changed()
        return f"half of the call is counted: {wrong}" if wrong else ""

    interleave(resolves(*keys), invariant=none_counts, expected=gone)


def test_two_resolve_both_in_opposite_orders(interleave: Any) -> None:
    race(interleave, 2)


def test_three_resolve_both(interleave: Any) -> None:
    race(interleave, 3)


def test_two_resolve_both_in_transactions_of_their_callers(interleave: Any) -> None:
    race(interleave, 2, judge.in_a_transaction)


def test_the_callers_transaction_is_rolled_back(interleave: Any) -> None:
    interleave(judge.rolls_back(resolves("a", "b")), invariant=judge.undone())


def test_an_error_of_the_database_is_raised(interleave: Any) -> None:
    """Neither hit counts, also if only the second write fails."""
    gone = ShortUrl.DoesNotExist
    for every in (1, 2):
        judge.errors_are_raised(interleave, resolves("a", "b"), meant=gone, every=every)


def test_plain_threads_resolve_both(interleave: Any) -> None:
    """Without the explorer."""
    interleave(resolves("a", "b"), invariant=all_have_both)
    judge.links()()
    told = judge.in_threads(lambda number: resolve_both(*PAIRS[number % 2]))
    number = sum(isinstance(each, tuple | list) for each in told)
    if wrong := judge.changed(a={"hits": number}, b={"hits": 7 + number}):
        judge.refuse(f"Threads have resolved both {number} times, and {wrong}.")
