"""What the tests of the exercises share.

A call is a function without arguments. What it returns is compared with `==`. The tests compare
what a user sees, and not every row: a right solution may keep rows of its own to lock.
"""

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Model, QuerySet

from lab.models import Notification
from pginterleave import NotProven
from pginterleave.pytest_plugin import Interleave

Call = Callable[[], Any]
Pair = tuple[Call, Call]  # a call of the solution, and the same call of a right strategy
State = Callable[[], Any]  # reads the rows that a user sees
MAX_SCHEDULES = {2: 120, 3: 60}  # the schedules with the fewest preemptions come first
REFUSES_TRANSACTIONS = "raises RuntimeError"


def delete_rows(*models: type[Model]) -> None:
    """Delete the rows themselves; the manager of ShortUrl only marks rows as deleted."""
    for model in models:
        QuerySet(model).delete()


def outcome_of(call: Call) -> Any:
    """Return what a call returns, or the class of its exception as text."""
    try:
        return call()
    except Exception as error:
        return f"raises {type(error).__name__}"


def run_in_transaction(call: Call) -> Any:
    """Return the outcome of a call in a caller's transaction, which then writes a row."""
    with transaction.atomic():
        outcome = outcome_of(call)
        if outcome != REFUSES_TRANSACTIONS:
            Notification.objects.create(text=f"after a call that {outcome}")
    return outcome


def in_transactions(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the same calls, each in a transaction of its caller's."""
    return [(partial(run_in_transaction, a), partial(run_in_transaction, b)) for a, b in pairs]


def check(pairs: Sequence[Pair], state: State, text: str) -> None:
    """Fail unless the solution's calls, one after another, end as the right ones do."""
    with transaction.atomic():
        right = [outcome_of(call) for _, call in pairs], state()
        transaction.set_rollback(True)
    end = [outcome_of(call) for call, _ in pairs], state()
    if end != right and REFUSES_TRANSACTIONS not in end[0]:
        pytest.fail(f"{text}: the end is {end}. Right is {right}.", pytrace=False)


def check_at_once(interleave: Interleave, pairs: Sequence[Pair], state: State, text: str) -> None:
    """Fail unless each schedule of the solution's calls ends as the right ones do in some order."""
    ends = []
    for order in itertools.permutations(range(len(pairs))):
        with transaction.atomic():
            outcomes = {number: outcome_of(pairs[number][1]) for number in order}
            ends.append(([outcomes[number] for number in sorted(outcomes)], state()))
            transaction.set_rollback(True)

    def compare_with_serial_orders(outcomes: Sequence[Any]) -> str:
        end = [outcome.returned for outcome in outcomes], state()
        if end in ends or REFUSES_TRANSACTIONS in end[0]:
            return ""
        return f"{text} at once: the end is {end}. One after the other it is {ends[0]}."

    explore(interleave, [call for call, _ in pairs], compare_with_serial_orders)


def explore(interleave: Interleave, calls: Sequence[Call], invariant: Callable[..., str]) -> None:
    """Fail if a schedule violates the invariant; a search that a limit ends is not a failure."""
    processes = [partial(outcome_of, call) for call in calls]
    try:
        interleave(*processes, invariant=invariant, max_schedules=MAX_SCHEDULES[len(calls)])
    except NotProven:
        return
    except AssertionError as error:
        pytest.fail(str(error), pytrace=False)


def fail_unless(holds: bool, text: str) -> None:
    """Fail with the text alone."""
    if not holds:
        pytest.fail(text, pytrace=False)


def run_in_threads(call: Call, *, threads: int = 3, turns: int = 40) -> list[Any]:
    """Return the outcomes of a call that each thread repeats, with a connection of its own."""

    def repeat(_: int) -> list[Any]:
        try:
            return [outcome_of(call) for _ in range(turns)]
        finally:
            connection.close()

    with ThreadPoolExecutor(threads) as pool:
        return [outcome for outcomes in pool.map(repeat, range(threads)) for outcome in outcomes]
