"""What the tests of the exercises share.

A call is a function without arguments, and a pair is a call of the solution with the same call of a
right strategy. Their ends are compared: what the calls return or raise, and the rows that a user
sees. A right solution may keep rows of its own to lock.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import permutations
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Model, QuerySet

from lab.models import Notification
from pginterleave import NotProven
from pginterleave.pytest_plugin import Interleave

Call = Callable[[], Any]
Pair = tuple[Call, Call]
MAX_SCHEDULES = {2: 120, 3: 60}  # the schedules with the fewest preemptions come first
THREADS = 3
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


def find_right_end(pairs: Sequence[Pair], state: Call, order: Iterable[int]) -> Any:
    """Run the right calls in this order, and roll back."""
    with transaction.atomic():
        outcomes = {number: outcome_of(pairs[number][1]) for number in order}
        end = [outcomes[number] for number in range(len(pairs))], state()
        transaction.set_rollback(True)
    return end


def check(pairs: Sequence[Pair], state: Call, text: str) -> None:
    """Fail unless the solution's calls, one after another, end as the right ones do."""
    right = find_right_end(pairs, state, range(len(pairs)))
    end = [outcome_of(call) for call, _ in pairs], state()
    if REFUSES_TRANSACTIONS not in end[0]:
        compare(end, right, text)


def check_at_once(interleave: Interleave, pairs: Sequence[Pair], state: Call, text: str) -> None:
    """Fail unless each schedule of the solution's calls ends as the right ones do in some order."""
    ends = [find_right_end(pairs, state, order) for order in permutations(range(len(pairs)))]

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


def compare(end: object, right: object, text: str) -> None:
    fail_unless(end == right, f"{text}: the end is {end}. Right is {right}.")


def fail_unless(holds: bool, text: str) -> None:
    """Fail with the text alone."""
    if not holds:
        pytest.fail(text, pytrace=False)


def run_in_threads(call: Call, *, times: int) -> list[Any]:
    """Return the outcomes of a call that each of THREADS repeats, with its own connection."""

    def repeat(_: int) -> list[Any]:
        try:
            return [outcome_of(call) for _ in range(times)]
        finally:
            connection.close()

    with ThreadPoolExecutor(THREADS) as pool:
        return [outcome for outcomes in pool.map(repeat, range(THREADS)) for outcome in outcomes]
