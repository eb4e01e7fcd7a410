"""Write a spend that holds: `pytest exercises/quota.py` judges it.

It calls `create` and returns what that returns, if `spender` may spend `amount` more in this
period, and else raises ShortUrl.QuotaExceeded, as below. `since` is when the period began, for
PostgreSQL to compute. What a create that fails was to cost has to be there for the next one.

As it stands nothing that is spent is lost, and more is spent than there is. Who else has looked?
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import pytest
from django.contrib.postgres.functions import TransactionNow
from django.db import IntegrityError
from django.db.models import F, Func

from exercises import judging as judge
from pginterleave import Outcome
from shorturl.models import QuotaUsage, ShortUrl

T = TypeVar("T")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def spend(
    spender: str, create: Callable[[], T], *, limit: int, period: timedelta, amount: int = 1
) -> T:
    since: Any = Func(period, TransactionNow(), EPOCH, function="DATE_BIN")
    counter = QuotaUsage.objects.filter(spender=spender, period=period, since=since).first()
    if counter is None:
        counter = QuotaUsage.objects.create(spender=spender, period=period, since=since, spent=0)
    if counter.spent + amount > limit:
        raise ShortUrl.QuotaExceeded(spender, limit=limit, period=period)
    QuotaUsage.objects.filter(pk=counter.pk).update(spent=F("spent") + amount)
    return create()


# What judges it. Nothing below is to be changed.

# So long that none ends during the tests: they begin in 1970, 1997, 2024 and 2052; the shorter ones
# in 2024 and 2038.
PERIOD, SHORTER = timedelta(days=10_000), timedelta(days=5_000)
THE_PERIOD_BEFORE, NOW = datetime(1997, 5, 19, tzinfo=UTC), datetime(2024, 10, 4, tzinfo=UTC)
REFUSED = ShortUrl.QuotaExceeded


def pays(create: Callable[[], Any] = lambda: "made", limit: int = 1, **options: Any) -> Any:
    """Return a process that makes something which costs one."""
    given = {"spender": "somebody", "period": PERIOD, **options}
    return lambda: spend(create=create, limit=limit, **given)


def nothing_spent() -> None:
    """Have used up the period before, and nothing of this one."""
    QuotaUsage.objects.get_or_create(
        spender="somebody", period=PERIOD, since=THE_PERIOD_BEFORE, defaults={"spent": 5}
    )


def one_left_of(limit: int) -> Any:
    def setup() -> None:
        nothing_spent()
        for _ in range(limit - 1):
            pays(limit=limit)()

    return setup


def made(outcomes: list[Outcome], due: int = 1) -> str:
    """Compare how many have something with how many are due; the others are refused."""
    told = [each.returned for each in outcomes if each.raised is None]
    if any(each != "made" for each in told):
        return f"one who pays is returned {told[0]!r}, due what its create returns"
    return f"{len(told)} are made, where the quota has {due} left" if len(told) != due else ""


def in_turn(interleave: Any, *calls: tuple[Any, bool]) -> None:
    """Have one process make the calls in turn, each of which gets something or is refused."""

    def run() -> list[bool]:
        return [gets(call) for call, _ in calls]

    def as_due(outcomes: list[Outcome]) -> str:
        due = [each for _, each in calls]
        got = outcomes[0].returned
        return f"of calls one after the other get something: {got}, due {due}" if got != due else ""

    interleave(run, setup=nothing_spent, invariant=as_due)


def gets(call: Any) -> bool:
    """Return whether a call gets what its create makes, and is not refused."""
    try:
        return bool(call() == "made")
    except REFUSED:
        return False


def race(interleave: Any, *calls: Any, setup: Any = nothing_spent, due: int = 1) -> None:
    invariant = partial(made, due=due)
    interleave(*calls, setup=setup, invariant=invariant, expected=REFUSED)


def test_one_spends_a_quota(interleave: Any) -> None:
    """Two are in it, and a third is not."""
    in_turn(interleave, *[(pays(limit=2), True)] * 2, (pays(limit=2), False))


def test_a_quota_of_nothing(interleave: Any) -> None:
    """Nothing is made for a spender who is refused."""
    made_all_the_same = []
    refused = pays(lambda: made_all_the_same.append("made"), limit=0)
    in_turn(interleave, (refused, False))
    if made_all_the_same:
        judge.refuse("The quota is 0, and create is called.")


def test_an_amount_above_the_limit(interleave: Any) -> None:
    """Nothing was spent before, so that there is no counter yet; and nothing is spent by it."""
    in_turn(interleave, (pays(limit=2, amount=3), False), (pays(limit=2, amount=2), True))


def test_an_amount_that_is_too_much_now(interleave: Any) -> None:
    one, two = pays(limit=2), pays(limit=2, amount=2)
    in_turn(interleave, (one, True), (two, False), (one, True), (one, False))


def test_each_spender_and_each_period_has_a_quota(interleave: Any) -> None:
    other, shorter = pays(spender="other"), pays(period=SHORTER)
    in_turn(interleave, (pays(), True), (other, True), (shorter, True), (other, False))


@pytest.mark.parametrize("error", [ShortUrl.KeyTaken("taken"), ValueError("no"), None])
def test_a_create_that_fails_costs_nothing(interleave: Any, error: Exception | None) -> None:
    """Also where it is the database that refuses it."""

    def fails() -> object:
        if error is None:
            return QuotaUsage.objects.create(spender="other", period=PERIOD, spent=-1)
        raise error

    def run() -> Any:
        try:
            pays(fails)()
        except (ShortUrl.KeyTaken, ValueError, IntegrityError):
            return pays()()
        return "no error, though the create failed"

    race(interleave, run)


def test_two_want_the_last(interleave: Any) -> None:
    race(interleave, pays(limit=2), pays(limit=2), setup=one_left_of(2))


def test_two_begin_a_period(interleave: Any) -> None:
    """There is no counter of it yet."""
    race(interleave, pays(), pays())


def test_two_may_begin_a_period(interleave: Any) -> None:
    race(interleave, pays(limit=2), pays(limit=2), due=2)


def test_three_want_the_last_two(interleave: Any) -> None:
    race(interleave, *[pays(limit=3)] * 3, setup=one_left_of(2), due=2)


def test_one_fails_and_another_has_it(interleave: Any) -> None:
    again = pays(limit=2)

    def fails() -> None:
        raise ShortUrl.KeyTaken("taken")

    def run() -> Any:
        try:
            pays(fails, limit=2)()
        except (ShortUrl.KeyTaken, REFUSED):
            return again
        return "no error, though the create failed"

    def in_the_end(outcomes: list[Outcome]) -> str:
        first, second = outcomes
        if first.raised or isinstance(first.returned, str):
            return f"process 1 is told {first.raised or first.returned!r}"
        both = [Outcome("made") for call in [first.returned] if gets(call)]
        return made([*both, *([second] if second.raised is None else [])])

    setup = one_left_of(2)
    interleave(run, pays(limit=2), setup=setup, invariant=in_the_end, expected=REFUSED)


def test_two_want_it_in_transactions_of_their_callers(interleave: Any) -> None:
    call = judge.in_a_transaction(pays(limit=2))
    race(interleave, call, call, setup=one_left_of(2))


def test_the_callers_transaction_is_rolled_back(interleave: Any) -> None:
    def spent(_: list[Outcome]) -> str:
        return "" if gets(pays()) else "what it was to cost is spent"

    interleave(judge.rolls_back(pays()), setup=nothing_spent, invariant=judge.undone(spent))


def test_an_error_of_the_database_is_raised(interleave: Any) -> None:
    def spent(_: list[Outcome]) -> str:
        return "" if gets(pays()) else "a write has failed, and what it was to cost is spent"

    judge.errors_are_raised(interleave, pays(), setup=nothing_spent, meant=REFUSED, check=spent)


def test_plain_threads_want_the_last_ones(interleave: Any) -> None:
    """Without the explorer."""
    race(interleave, pays())
    told = judge.in_threads(lambda _: pays(limit=50)())
    if (number := told.count("made")) != 50:
        judge.refuse(f"Threads have 50 to spend, and {number} are made.")
    if errors := [each for each in told if each != "made" and not isinstance(each, REFUSED)]:
        judge.refuse(f"Threads want the last ones, and one is told {errors[0]!r}.")
