"""What the tests of the exercises share.

A solution's calls must end as those of a right strategy, in results and in rows that a user sees.
The fixture `interleave` restores the rows after a test, also if the test runs no calls at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import permutations
from typing import Any

import pytest
from django.db import connection, transaction

from lab.conftest import run_in_threads
from pginterleave import NotProven, Outcome
from pginterleave.formatting import format_exception
from pginterleave.pytest_plugin import Interleave

Call = Callable[[], Any]
Invariant = Callable[[Sequence[Outcome]], str]  # returns what is wrong, or ""
End = tuple[list[Any], list[dict[str, Any]]]  # what the calls return, and the rows afterwards
Pair = tuple[Call, Call]  # a call of the solution, and the same one of a right strategy
# By the number of processes; the schedules with the fewest preemptions come first.
MAX_SCHEDULES = {2: 120, 3: 60}
PAST = datetime(2022, 4, 29, tzinfo=UTC)


@dataclass(frozen=True)
class Raised:
    """An exception of a call. Two of one class are equal; the text has the message and the line."""

    kind: str
    text: str = field(default="", compare=False)

    def __repr__(self) -> str:
        return f"raises {self.text or self.kind}"


def outcome_of(call: Call) -> Any:
    """Return what a call returns or, for an exception, Raised."""
    try:
        return call()
    except Exception as error:
        return Raised(type(error).__name__, format_exception(error))


@transaction.atomic
def run_in_transaction(call: Call) -> Any:
    """Return the outcome of a call in a caller's transaction, which goes on afterwards."""
    outcome = outcome_of(call)
    connection.cursor().execute("SELECT 1")
    return outcome


def in_transactions(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs with each call in a transaction of its own."""
    run = run_in_transaction
    return [(partial(run, solution), partial(run, right)) for solution, right in pairs]


def check(pairs: Sequence[Pair], read_rows: Call, text: str, interleave: Any = None) -> None:
    """Fail unless the solution's calls end as the right ones do one after the other.

    With `interleave` the solution's run at once, and may end as the right ones do in any order.
    """
    solution_calls, right_calls = zip(*pairs, strict=True)
    numbers = range(len(pairs))
    right_ends: list[End] = []
    for order in permutations(numbers) if interleave else [numbers]:
        with transaction.atomic():
            outcomes = {number: outcome_of(right_calls[number]) for number in order}
            right_ends.append(([outcomes[number] for number in numbers], read_rows()))
            transaction.set_rollback(True)

    def describe_mistake(outcomes: Sequence[Outcome]) -> str:
        returned = [outcome.returned for outcome in outcomes]
        end = returned, read_rows()
        if end in right_ends or Raised("RuntimeError") in returned:  # from atomic(durable=True)
            return ""
        right = " or ".join(dict.fromkeys(map(str, right_ends)))
        return f"{text}: {name_difference(end, right_ends)}. It is {end}. Right is {right}."

    calls = [partial(outcome_of, call) for call in solution_calls]
    if interleave:
        explore(calls, describe_mistake, interleave)
    else:
        mistake = describe_mistake([Outcome(returned=call()) for call in calls])
        require(not mistake, mistake)


def name_difference(end: End, right_ends: Sequence[End]) -> str:
    """Return the first difference from a right end, such as "hits is 3, not 4".

    The right end is one in which the calls return the same, if there is one.
    """
    returned, rows = end
    right_returned, right_rows = next((r for r in right_ends if r[0] == returned), right_ends[0])
    for number, (outcome, right) in enumerate(zip(returned, right_returned, strict=True), start=1):
        if outcome != right:
            return f"call {number}: {outcome}, not {right}"
    if len(rows) != len(right_rows):
        return f"there are {len(rows)} rows, not {len(right_rows)}"
    for row, right_row in zip(rows, right_rows, strict=True):
        for name, value in row.items():
            if value != right_row[name]:
                return f"{name} is {value!r}, not {right_row[name]!r}"
    raise ValueError(f"{end} is a right end")


def explore(calls: Sequence[Call], invariant: Invariant, interleave: Interleave) -> None:
    """Fail if a schedule of the calls violates the invariant; MAX_SCHEDULES are tried at most."""
    mistake = ""
    try:
        interleave(*calls, invariant=invariant, max_schedules=MAX_SCHEDULES[len(calls)])
    except NotProven:
        pass
    except AssertionError as error:
        mistake = str(error)
    require(not mistake, mistake)


def require(is_right: object, mistake: str) -> None:
    if not is_right:
        pytest.fail(mistake, pytrace=False)


def repeat_in_threads(call: Call, *, times: int) -> list[Any]:
    """Return the outcomes of a call that each of three threads repeats."""
    outcomes_of_threads = run_in_threads([lambda: [outcome_of(call) for _ in range(times)]] * 3)
    return [outcome for thread in outcomes_of_threads for outcome in thread.returned]
