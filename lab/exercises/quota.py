"""Write a correct `spend`: `pytest lab/exercises/quota.py` tests it.

If `spender` may spend `amount` more in this period, `spend` calls `create` and returns its result.
Otherwise it raises ShortUrl.QuotaExceeded, as below, and does not call `create`. The clock of
PostgreSQL, and not Python's, decides in which period the call is: `since` is its start. A create
that fails must not use up any of the quota, and what it raises, `spend` raises.

Calls at once end as calls one after another do. It also works in a caller's transaction, or refuses
it as atomic(durable=True) does, and leaves the session as it was: settings, locks, connection. Its
caller gets every error of the database, or another error with it as the cause, but not
QuotaExceeded. It gives up after a thousand attempts at the latest, and waits for others in the
database alone.

The function below can spend more than the limit. Which other process has read the same counter?
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from django.contrib.postgres.functions import TransactionNow
from django.db.models import F, Func
from hypothesis import strategies as st

from lab.exercises import judging, scenarios
from lab.models import Notification
from shorturl.models import QuotaUsage, ShortUrl
from shorturl.strategies.spending import row_lock

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


@dataclass(frozen=True)
class Spend(scenarios.Call):
    name = "spend"
    spender: str = "somebody"
    limit: int = 2
    days: int = 10_000  # so long that no period ends during the tests
    amount: int | None = None
    fails: str = ""

    def ask(self, function: Callable[..., Any], number: int, *, at_once: bool) -> str:
        calls = []

        def create() -> str:
            calls.append(number)
            scenarios.fail(self.fails)
            Notification.objects.create(text=f"made in call {number}")
            return f"what create {number} returns"

        options = {} if self.amount is None else {"amount": self.amount}
        spender, period = "".join(self.spender), timedelta(days=self.days)
        try:
            result = function(spender, create, limit=self.limit, period=period, **options)
        except ShortUrl.QuotaExceeded as error:
            if at_once or not calls:
                raise
            raise AssertionError("create is called, and the quota is used up") from error
        return f"returns {result!r}"

    def turn(self, function: Callable[..., Any], number: int, turn: int) -> str:
        return self(function, 0, at_once=True)  # all processes are told the same


def counter(days: int, since: datetime, spent: int, spender: str = "somebody") -> scenarios.Row:
    fields = {"spender": spender, "period": timedelta(days=days), "since": since, "spent": spent}
    return scenarios.Row(QuotaUsage, fields)


class TestQuota(judging.Exercise):
    name, reference = "spend", staticmethod(row_lock.spend)
    table, meant = "shorturl_spending", ShortUrl.QuotaExceeded
    days = 20_000
    # Periods of 10,000 days begin in 1970, 1997, 2024 and 2052, those of 5,000 in 2024 and 2038.
    before, now = (datetime(*day, tzinfo=UTC) for day in ((1997, 5, 19), (2024, 10, 4)))
    counters = st.builds(
        counter,
        st.sampled_from([10_000, 10_000, 5_000]),
        st.sampled_from([now, now, before]),
        st.sampled_from([0, 1, 2, 3, 5]),
        st.sampled_from(["somebody", "somebody", "Somebody"]),
    )
    whose = staticmethod(lambda row: str(row.fields | {"spent": 0}))
    alone = st.builds(
        scenarios.Scenario,
        rows=st.lists(counters, max_size=4, unique_by=whose),
        steps=st.lists(
            st.builds(
                Spend,
                scenarios.INSIDE,
                st.sampled_from(["somebody", "somebody", "somebody", "Somebody"]),
                st.integers(0, 6),
                st.sampled_from([10_000, 10_000, 10_000, 5_000]),
                st.sampled_from([None, 1, 2, 3]),
                scenarios.FAILS,
            ),
            min_size=1,
            max_size=5,
        ),
    )
    ordinary = scenarios.Scenario([counter(10_000, now, 3)], [Spend(limit=100_000)])
    may_fail_to_serialize = True
    meddling = "UPDATE shorturl_spending SET spent = spent + 1"
    try_again = "raises QuotaExceeded"
    turns = 100
    rush = scenarios.Scenario([], [Spend(limit=turns * 3 - 10)] * 3)

    @staticmethod
    def at_once(processes: int) -> st.SearchStrategy[scenarios.Scenario]:
        def meet(limit: int) -> st.SearchStrategy[scenarios.Scenario]:
            """Make calls that mostly spend of one counter, with one limit."""
            call = st.builds(
                Spend,
                scenarios.INSIDE_AT_ONCE,
                scenarios.mostly("somebody", "Somebody"),
                scenarios.mostly(limit, 1),
                amount=st.sampled_from([None, 1, 2]),
                fails=scenarios.FAILS_SELDOM,
            )
            spent = st.builds(counter, st.just(10_000), st.just(TestQuota.now), st.integers(0, 1))
            rows = st.tuples(st.none() | spent)
            return st.builds(scenarios.Scenario, rows, st.tuples(*[call] * processes))

        return st.integers(1, 3).flatmap(meet)
