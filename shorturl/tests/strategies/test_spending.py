"""The contract of every strategy for spending; lab/races has the races."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NoReturn

import pytest
from django.db import DataError, connection, transaction
from django.db.models import Sum

from pginterleave.pytest_plugin import Interleave
from shorturl.exceptions import KeyTaken, QuotaExceeded
from shorturl.models import QuotaUsage, ShortUrl
from shorturl.strategies.exhibits.models import SingleCreate
from shorturl.strategies.spending import f_expression
from shorturl.strategies.table import STRATEGIES, Strategy, Verdict
from shorturl.tests.callers import each

# It began in 2024, and ends in 2052.
PERIOD = timedelta(days=10_000)
BEFORE = datetime(1997, 5, 19, tzinfo=UTC)

pytestmark = pytest.mark.django_db(transaction=True)
every_strategy = each(STRATEGIES["spending"].values())


def spent(spender: str) -> int:
    counted = QuotaUsage.objects.filter(spender=spender).aggregate(sum=Sum("spent"))["sum"] or 0
    return counted + SingleCreate.objects.filter(spender=spender).count()


def fail() -> NoReturn:
    raise KeyTaken("mine")


@every_strategy
def test_spends_up_to_the_limit(strategy: Strategy) -> None:
    """Each spender and each period has a separate quota, and a refusal spends nothing."""
    QuotaUsage.objects.create(spender="one", period=PERIOD, since=BEFORE, spent=3)
    for number, spender in enumerate(("one", "other")):
        assert strategy.function(spender, lambda: "made", limit=3, period=PERIOD) == "made"
        assert strategy.function(spender, lambda: "two", limit=3, period=PERIOD, amount=2) == "two"
        with pytest.raises(QuotaExceeded) as raised:
            strategy.function(spender, fail, limit=3, period=PERIOD)
        assert str(raised.value) == f"{spender!r} has used up its quota of 3 in {PERIOD}."
        assert spent(spender) == (3, 6)[number == 0]


@every_strategy
def test_more_at_once_than_is_left(strategy: Strategy) -> None:
    for made in (0, 1):
        with pytest.raises(QuotaExceeded):
            strategy.function("one", fail, limit=3, period=PERIOD, amount=4 - made)
        assert spent("one") == made
        strategy.function("one", list, limit=3, period=PERIOD)


@each(one for one in STRATEGIES["spending"].values() if one.verdict is Verdict.RIGHT)
def test_a_failure_is_given_back_and_the_callers_transaction_stays_usable(
    strategy: Strategy,
) -> None:
    def create_in_vain() -> NoReturn:
        ShortUrl.objects.create(key="half", target_url="https://example.com/")
        fail()

    def refused() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")

    with transaction.atomic():
        with pytest.raises(DataError):
            strategy.function("one", refused, limit=1, period=PERIOD)
        with pytest.raises(KeyTaken):
            strategy.function("one", fail, limit=1, period=PERIOD)
        assert spent("one") == 0
        strategy.function("one", list, limit=1, period=PERIOD)
        with pytest.raises(QuotaExceeded):
            strategy.function("one", fail, limit=1, period=PERIOD)
        assert spent("one") == 1
    if strategy.name != "conditional_update":  # which has no transaction
        with pytest.raises(KeyTaken):
            strategy.function("other", create_in_vain, limit=1, period=PERIOD)
        assert not ShortUrl.objects.exists()


def test_a_session_that_is_killed_gives_back_what_it_has_reserved() -> None:
    """With conditional_update it stays spent, as its docstring says."""

    def killed() -> NoReturn:
        connection.connection.close()
        raise SystemExit

    for name, left in ("reservation", 0), ("row_lock", 0), ("conditional_update", 1):
        with pytest.raises(SystemExit):
            STRATEGIES["spending"][name].function(name, killed, limit=1, period=PERIOD)
        connection.close()
        assert spent(name) == left


def test_two_begin_a_period_with_f_expression(interleave: Interleave) -> None:
    """Far below the limit it counts both; the races show what goes wrong at the limit."""
    interleave(partial(f_expression.spend, "one", lambda: "made", limit=9, period=PERIOD))
