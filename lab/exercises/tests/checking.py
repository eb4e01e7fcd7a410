"""What the tests of the exercises share.

A solution's calls must end as those of a right strategy, in results and in rows that a user sees.
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


def check(
    pairs: Sequence[Pair], state: Call, text: str, at_once: Any = None, run: Any = outcome_of
) -> None:
    """Fail unless the calls, in turn or at once, end as the right ones do one after the other.

    `state` reads the rows, `text` begins the message, `at_once` is the fixture `interleave`.
    """
    ends = []
    for order in permutations(range(len(pairs))) if at_once else [range(len(pairs))]:
        with transaction.atomic():
            right = {number: outcome_of(partial(run, pairs[number][1])) for number in order}
            ends.append(([right[number] for number in sorted(right)], state()))
            transaction.set_rollback(True)

    def invariant(outcomes: Sequence[Outcome]) -> str:
        end = [outcome.returned for outcome in outcomes], state()
        is_right = end in ends or Raised("RuntimeError") in end[0]  # as atomic(durable=True) does
        return "" if is_right else f"{text}: it is {end}. One after the other it is {ends[0]}."

    explore([partial(run, call) for call, _ in pairs], invariant, at_once)


def explore(calls: Sequence[Call], invariant: Any, at_once: Interleave | None) -> None:
    """Fail if the calls violate the invariant; a search that a limit ends is no failure."""
    processes = [partial(outcome_of, call) for call in calls]
    mistake = ""
    try:
        if at_once:
            at_once(*processes, invariant=invariant, max_schedules=MAX_SCHEDULES[len(calls)])
        else:
            mistake = invariant([Outcome(returned=process()) for process in processes])
    except NotProven:
        return
    except AssertionError as error:
        mistake = str(error)
    require(not mistake, mistake)


def require(is_right: object, mistake: str) -> None:
    if not is_right:
        pytest.fail(mistake, pytrace=False)


def repeat_in_threads(call: Call, *, times: int) -> list[Any]:
    """Return the outcomes of a call that each of three threads repeats."""
    threads = run_in_threads([lambda: [outcome_of(call) for _ in range(times)]] * 3)
    return [outcome for thread in threads for outcome in thread.returned]
