"""Write a correct `spend`: `pytest lab/exercises/quota.py` tests it.

If `spender` may spend `amount` more in this period, `spend` calls `create` and returns its result.
Otherwise it raises ShortUrl.QuotaExceeded, as below. PostgreSQL computes `since`, the start of the
period. A create that fails must not use up any of the quota.

The function below can spend more than the limit. Which other process has read the same counter?
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import pytest
from django.contrib.postgres.functions import TransactionNow
from django.db import IntegrityError
from django.db.models import F, Func

from lab.exercises import judging as judge
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


# The tests. Do not change anything below.

# So long that none ends during the tests. Periods of 10,000 days begin in 1970, 1997, 2024 and
# 2052, and those of 5,000 days in 2024 and 2038, too.
PERIOD, SHORTER = timedelta(days=10_000), timedelta(days=5_000)
THE_PERIOD_BEFORE, NOW = datetime(1997, 5, 19, tzinfo=UTC), datetime(2024, 10, 4, tzinfo=UTC)
REFUSED = ShortUrl.QuotaExceeded


def pays(create: Callable[[], Any] = lambda: "made", limit: int = 1, **options: Any) -> Any:
    """Return a process that spends 1."""
    given = {"spender": "somebody", "period": PERIOD, **options}
    return lambda: spend(create=create, limit=limit, **given)


def nothing_spent() -> None:
    """Use up the quota of the previous period, and nothing of the present one."""
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
    """Check that `due` processes get the result of their create; the others are refused."""
    told = [each.returned for each in outcomes if each.raised is None]
    if any(each != "made" for each in told):
        return f"a process gets {told[0]!r}, expected the result of its create"
    return f"{len(told)} are made, and the quota had {due} left" if len(told) != due else ""


def in_turn(interleave: Any, *calls: tuple[Any, bool]) -> None:
    """Check of calls in one process, one after the other, which succeed and which are refused."""

    def run() -> list[bool]:
        return [gets(call) for call, _ in calls]

    def as_due(outcomes: list[Outcome]) -> str:
        due = [each for _, each in calls]
        got = outcomes[0].returned
        return f"calls one after the other succeed: {got}, expected {due}" if got != due else ""

    interleave(run, setup=nothing_spent, invariant=as_due)


def gets(call: Any) -> bool:
    """Return whether a call returns the result of its create, and is not refused."""
    try:
        return bool(call() == "made")
    except REFUSED:
        return False


def race(interleave: Any, *calls: Any, setup: Any = nothing_spent, due: int = 1) -> None:
    invariant = partial(made, due=due)
    interleave(*calls, setup=setup, invariant=invariant, expected=REFUSED)


def test_one_spends_a_quota(interleave: Any) -> None:
    """The limit is 2, so the third call is refused."""
    in_turn(interleave, *[(pays(limit=2), True)] * 2, (pays(limit=2), False))


def test_a_quota_of_zero(interleave: Any) -> None:
    """create() must not be called."""
    made_all_the_same = []
    refused = pays(lambda: made_all_the_same.append("made"), limit=0)
    in_turn(interleave, (refused, False))
    if made_all_the_same:
        judge.refuse("The quota is 0, and create is called.")


def test_an_amount_above_the_limit(interleave: Any) -> None:
    """The refused call comes first, when there is no counter yet, and spends nothing."""
    in_turn(interleave, (pays(limit=2, amount=3), False), (pays(limit=2, amount=2), True))


def test_an_amount_above_the_rest(interleave: Any) -> None:
    one, two = pays(limit=2), pays(limit=2, amount=2)
    in_turn(interleave, (one, True), (two, False), (one, True), (one, False))


def test_each_spender_and_each_period_has_a_quota(interleave: Any) -> None:
    other, shorter = pays(spender="other"), pays(period=SHORTER)
    in_turn(interleave, (pays(), True), (other, True), (shorter, True), (other, False))


@pytest.mark.parametrize("error", [ShortUrl.KeyTaken("taken"), ValueError("no"), None])
def test_a_create_that_fails_costs_nothing(interleave: Any, error: Exception | None) -> None:
    """The error None stands for one of the database."""

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


def test_the_create_of_one_fails_and_another_spends(interleave: Any) -> None:
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
            return f"process 1 gets {first.raised or first.returned!r}"
        both = [Outcome("made") for call in [first.returned] if gets(call)]
        return made([*both, *([second] if second.raised is None else [])])

    setup = one_left_of(2)
    interleave(run, pays(limit=2), setup=setup, invariant=in_the_end, expected=REFUSED)


def test_two_want_the_last_in_transactions_of_their_callers(interleave: Any) -> None:
    call = judge.in_a_transaction(pays(limit=2))
    race(interleave, call, call, setup=one_left_of(2))


def test_the_callers_transaction_is_rolled_back(interleave: Any) -> None:
    def spent(_: list[Outcome]) -> str:
        return "" if gets(pays()) else "the quota is spent"

    interleave(judge.rolls_back(pays()), setup=nothing_spent, invariant=judge.undone(spent))


def test_an_error_of_the_database_is_raised(interleave: Any) -> None:
    def spent(_: list[Outcome]) -> str:
        return "" if gets(pays()) else "a write has failed, and the quota is spent"

    judge.errors_are_raised(interleave, pays(), setup=nothing_spent, meant=REFUSED, check=spent)


def test_plain_threads_want_the_last_ones(interleave: Any) -> None:
    """Without the explorer."""
    race(interleave, pays())
    told = judge.in_threads(lambda _: pays(limit=50)())
    if (number := told.count("made")) != 50:
        judge.refuse(f"Threads have a quota of 50, and {number} are made.")
    if errors := [each for each in told if each != "made" and not isinstance(each, REFUSED)]:
        judge.refuse(f"Threads spend a quota, and one gets {errors[0]!r}.")
