"""The tests of lab/exercises/quota.py."""

from datetime import timedelta
from functools import partial
from typing import Any

from django.db.models import Sum

from lab.exercises import quota as exercise
from lab.exercises.tests import checking
from lab.models import Notification
from pginterleave.pytest_plugin import Interleave
from shorturl.models import QuotaUsage
from shorturl.strategies.spending import row_lock

PERIOD = timedelta(days=10_000)  # no such period ends during the tests


def create_link() -> str:
    Notification.objects.create(text="a link")
    return "what create returns"


def fail() -> str:
    raise ValueError


def run(spend: Any, create: Any = create_link, who: str = "a", **options: int) -> Any:
    return spend(who, create, period=PERIOD, **options)


def pair(*arguments: Any, **options: Any) -> checking.Pair:
    """Return a call of the exercise, and one of a right strategy that must end alike."""
    solution = partial(run, exercise.spend, *arguments, **options)
    return solution, partial(run, row_lock.spend, *arguments, **options)


def begin(spent: int) -> None:
    checking.delete_rows(QuotaUsage, Notification)
    if spent:
        run(row_lock.spend, limit=spent, amount=spent)


def usage() -> list[Any]:
    spent = QuotaUsage.objects.filter(spent__gt=0).values("spender").order_by("spender")
    created = Notification.objects.order_by("text").values_list("text", flat=True)
    return [*spent.annotate(total=Sum("spent")).values_list("spender", "total"), *created]


def test_calls_one_after_another(interleave: Interleave) -> None:
    for spent in (0, 1):
        for limit, amount in ((2, 1), (1, 1), (0, 1), (4, 3), (4, 4)):
            begin(spent)
            pairs = [pair(limit=limit, amount=amount), pair(limit=2), pair(who="b", limit=1)]
            text = f"{spent} are spent: spend {amount} of {limit}, then 1 of 2, then 1 of 1 by b"
            checking.check(pairs, usage, text)
        begin(spent)
        text = f"{spent} are spent: spend with a create that fails, then with another"
        checking.check([pair(fail, limit=2), pair(limit=2)], usage, text)


def test_two_and_three_processes(interleave: Interleave) -> None:
    for spent, processes, limit in ((0, 2, 1), (0, 2, 2), (1, 2, 2), (1, 3, 3)):
        begin(spent)
        text = f"{processes} calls of spend with the limit {limit} after {spent}"
        checking.check_at_once(interleave, [pair(limit=limit)] * processes, usage, text)


def test_spend_in_a_callers_transaction(interleave: Interleave) -> None:
    begin(0)
    text = "two calls of spend in transactions"
    checking.check(checking.in_transactions([pair(limit=1)] * 2), usage, f"{text}, limit 1")
    begin(1)
    two = checking.in_transactions([pair(limit=2)] * 2)
    checking.check_at_once(interleave, two, usage, f"{text}, limit 2")


def test_in_threads(interleave: Interleave) -> None:
    begin(1)
    checking.run_in_threads(partial(run, exercise.spend, limit=100), times=50)
    created, spent = Notification.objects.count(), usage()[0][1]
    text = f"150 calls at once of a limit of 100 create {created}, and {spent} are spent."
    checking.fail_unless(created == spent <= 100, f"{text} Right is as many as created, up to 100.")
