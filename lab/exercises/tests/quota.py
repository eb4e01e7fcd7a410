"""The tests of lab/exercises/quota.py."""

from datetime import timedelta
from functools import partial
from typing import Any

from django.db.models import QuerySet

from lab.exercises import quota as exercise
from lab.exercises.tests import checking
from lab.models import Notification
from pginterleave.pytest_plugin import Interleave
from shorturl.models import QuotaUsage
from shorturl.strategies.spending import row_lock


def create_link() -> str:
    return Notification.objects.create(text="a link").text


def run(spend: Any, who: str = "a", create: Any = create_link, **options: int) -> Any:
    return spend(who, create, period=timedelta(days=10_000), **options)  # no period ends meanwhile


def pair(*arguments: Any, **options: Any) -> checking.Pair:
    right = partial(run, row_lock.spend, *arguments, **options)
    return partial(run, exercise.spend, *arguments, **options), right


def set_spent(spent: int) -> None:
    for model in (QuotaUsage, Notification):
        QuerySet(model).delete()
    if spent:
        run(row_lock.spend, limit=spent, amount=spent)


def read_usage() -> list[Any]:
    spent = QuotaUsage.objects.filter(spent__gt=0).order_by("spender")
    return [*spent.values("spender", "spent"), {"notifications": Notification.objects.count()}]


def test_calls_one_after_another(interleave: Interleave) -> None:
    limits_and_amounts = ((2, 1), (1, 1), (0, 1), (4, 3), (4, 4))
    for spent in (0, 1):
        for limit, amount in limits_and_amounts:
            set_spent(spent)
            pairs = [pair(limit=limit, amount=amount), pair(limit=2), pair("b", limit=1)]
            text = f"{spent} are spent: spend {amount} of {limit}, then 1 of 2, then 1 of 1 by b"
            checking.check(pairs, read_usage, text)
        set_spent(spent)
        pairs = [pair(create=lambda: 1 / 0, limit=2), pair(limit=2)]
        checking.check(pairs, read_usage, f"{spent} are spent: a create that fails, then another")
    set_spent(0)
    pairs = checking.in_transactions([pair(limit=1)] * 2)
    checking.check(pairs, read_usage, "two in transactions, limit 1")


def test_calls_at_once(interleave: Interleave) -> None:
    for spent, processes, limit in ((0, 2, 1), (0, 2, 2), (1, 2, 2), (1, 3, 3)):
        set_spent(spent)
        text = f"{processes} calls of spend at once with the limit {limit} after {spent}"
        checking.check([pair(limit=limit)] * processes, read_usage, text, interleave)
    set_spent(1)
    text = "two calls at once in transactions, limit 2"
    checking.check(checking.in_transactions([pair(limit=2)] * 2), read_usage, text, interleave)
    checking.repeat_in_threads(partial(run, exercise.spend, limit=100), times=50)
    spent, created = (row.popitem()[1] for row in read_usage())
    text = f"150 calls at once with the limit 100 create {created} and spend {spent}."
    checking.require(created == spent <= 100, f"{text} Right is as many as created, up to 100.")
