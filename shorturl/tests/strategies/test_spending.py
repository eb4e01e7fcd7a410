"""The contract of every strategy for spending; lab/races has the races."""

from datetime import UTC, datetime, timedelta
from typing import NoReturn

import pytest
from django.db import DataError, connection, transaction
from django.db.models import Sum

from shorturl.exceptions import KeyTaken, QuotaExceeded
from shorturl.models import QuotaUsage
from shorturl.strategies.exhibits.models import SingleCreate
from shorturl.strategies.table import STRATEGIES, Strategy, Verdict
from shorturl.tests.callers import for_strategies

# It began in 2024, and ends in 2052.
PERIOD = timedelta(days=10_000)
BEFORE = datetime(1997, 5, 19, tzinfo=UTC)
SPENDING = STRATEGIES["spending"]

pytestmark = pytest.mark.django_db(transaction=True)


def spent(spender: str) -> int:
    current = QuotaUsage.objects.filter(spender=spender, since__gt=BEFORE)
    counted = current.aggregate(sum=Sum("spent"))["sum"] or 0
    return counted + SingleCreate.objects.filter(spender=spender).count()


def fail() -> NoReturn:
    raise KeyTaken("mine")


@for_strategies(SPENDING.values())
def test_spends_up_to_the_limit(strategy: Strategy) -> None:
    """Each spender and each period has a separate quota, and a refusal spends nothing."""
    QuotaUsage.objects.create(spender="one", period=PERIOD, since=BEFORE, spent=3)
    for spender in ("one", "other"):
        with pytest.raises(QuotaExceeded):
            strategy.function(spender, fail, limit=3, period=PERIOD, amount=4)
        assert strategy.function(spender, lambda: "made", limit=3, period=PERIOD) == "made"
        with pytest.raises(QuotaExceeded):
            strategy.function(spender, fail, limit=3, period=PERIOD, amount=3)
        assert strategy.function(spender, lambda: "two", limit=3, period=PERIOD, amount=2) == "two"
        with pytest.raises(QuotaExceeded, match=f"'{spender}' has used up its quota of 3 in"):
            strategy.function(spender, fail, limit=3, period=PERIOD)
        assert spent(spender) == 3


@for_strategies(strategy for strategy in SPENDING.values() if strategy.verdict is Verdict.RIGHT)
def test_a_failure_is_given_back_and_the_callers_transaction_stays_usable(
    strategy: Strategy,
) -> None:
    def divide_by_zero() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")

    with transaction.atomic():
        with pytest.raises(DataError):
            strategy.function("one", divide_by_zero, limit=1, period=PERIOD)
        with pytest.raises(KeyTaken):
            strategy.function("one", fail, limit=1, period=PERIOD)
        assert spent("one") == 0
        strategy.function("one", list, limit=1, period=PERIOD)
        assert spent("one") == 1


@pytest.mark.parametrize(
    ("name", "left"), [("reservation", 0), ("row_lock", 0), ("conditional_update", 1)]
)
def test_a_session_that_is_killed_gives_back_what_it_has_reserved(name: str, left: int) -> None:
    """With conditional_update it stays spent, as its docstring says."""

    def kill_session() -> NoReturn:
        connection.connection.close()
        raise SystemExit

    with pytest.raises(SystemExit):
        SPENDING[name].function(name, kill_session, limit=1, period=PERIOD)
    connection.close()
    assert spent(name) == left
