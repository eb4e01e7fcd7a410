"""The tests of lab/exercises/quota.py."""

from collections.abc import Callable
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


def call(create: Callable[[], str] = create_link, *, who: str = "a", **options: int) -> Any:
    return exercise.spend(who, create, period=PERIOD, **options)


def right(create: Callable[[], str] = create_link, *, who: str = "a", **options: int) -> Any:
    return row_lock.spend(who, create, period=PERIOD, **options)


def pair(*arguments: Any, **options: Any) -> checking.Pair:
    return partial(call, *arguments, **options), partial(right, *arguments, **options)


def begin(spent: int) -> None:
    checking.delete_rows(QuotaUsage, Notification)
    if spent:
        right(limit=spent, amount=spent)


def usage() -> list[Any]:
    spent = QuotaUsage.objects.filter(spent__gt=0).values("spender").order_by("spender")
    created = Notification.objects.order_by("text").values_list("text", flat=True)
    return [*spent.annotate(total=Sum("spent")).values_list("spender", "total"), *created]


def test_calls_one_after_another(interleave: Interleave) -> None:
    for arguments, options in (
        ((), {"limit": 2}),
        ((), {"limit": 1}),
        ((), {"limit": 0}),
        ((), {"limit": 4, "amount": 3}),
        ((), {"limit": 4, "amount": 4}),
        ((fail,), {"limit": 2}),
    ):
        for spent in (0, 1):
            begin(spent)
            pairs = [pair(*arguments, **options), pair(limit=2), pair(who="b", limit=1)]
            text = f"spend with {options}{', a create that fails' if arguments else ''}"
            text = f"{text}, after {spent}; then with a limit of 2; then by b"
            checking.check(pairs, usage, text)


def test_two_and_three_processes(interleave: Interleave) -> None:
    for spent, processes, limit in ((0, 2, 1), (0, 2, 2), (1, 2, 2), (1, 3, 3)):
        begin(spent)
        text = f"{processes} calls of spend with the limit {limit} after {spent}"
        checking.check_at_once(interleave, [pair(limit=limit)] * processes, usage, text)


def test_in_a_callers_transaction(interleave: Interleave) -> None:
    begin(0)
    text = "two calls of spend in transactions"
    checking.check(checking.in_transactions([pair(limit=1)] * 2), usage, f"{text}, limit 1")
    begin(1)
    two = checking.in_transactions([pair(limit=2)] * 2)
    checking.check_at_once(interleave, two, usage, f"{text}, limit 2")


def test_in_threads(interleave: Interleave) -> None:
    begin(1)
    checking.run_in_threads(partial(call, limit=100), turns=50)
    created, spent = Notification.objects.count(), usage()[0][1]
    text = f"150 calls at once of a limit of 100 create {created}, and {spent} are spent"
    checking.fail_unless(
        created == spent <= 100, f"{text}. Right is as many as created, up to 100."
    )
