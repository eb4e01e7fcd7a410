"""Write a correct retry: `pytest lab/exercises/retry.py` tests it.

`retried` runs `work` in a transaction and returns its result. PostgreSQL ends some transactions
with a serialization failure or a deadlock. `retried` runs such a transaction again, and gives up
with the last error after 3 to 20 attempts. Between two attempts it waits by time.sleep(), longer
each time, with a random part. It raises every other error at once. Inside a caller's transaction it
raises every error at once, because only the caller can run the whole transaction again.

With the function below, the caller gets errors that another attempt would have avoided.
"""

import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

from django.db import DatabaseError, IntegrityError, OperationalError, connection, transaction
from django.db.backends.postgresql.psycopg_any import errors

from lab.exercises import judging as judge
from pginterleave import Outcome
from shorturl.models import ShortUrl
from shorturl.strategies.resolving import update_returning

T = TypeVar("T")


def retried(work: Callable[[], T]) -> T:
    with transaction.atomic():
        return work()


# The tests. Do not change anything below.

LEAST, MOST, ENOUGH = 3, 20, 100  # attempts
SAMPLES = 20  # of each wait, because waits are random


def add_one() -> int:
    """Read the counter of `a`, and write one more; REPEATABLE READ refuses one of two at once."""
    short_url = ShortUrl.objects.get(key="a")
    short_url.hits += 1
    short_url.save(update_fields=["hits"])
    return short_url.hits


def adds() -> int:
    return retried(add_one)


def all_have_added(outcomes: list[Outcome]) -> str:
    told = sorted(str(each.returned) for each in outcomes if not each.raised)
    due = [str(number + 1) for number in range(len(told))]
    wrong = judge.changed(a={"hits": len(told)})
    if told != due or wrong:
        return f"{len(told)} calls have succeeded, and returned {', '.join(told)}. {wrong}"
    return ""


@contextmanager
def waits_skipped(*, exploring: bool = True) -> Iterator[list[float]]:
    """Within the block time.sleep() returns at once, except for the explorer; yield the seconds."""
    waits, sleep = list[float](), time.sleep

    def wait(seconds: float) -> None:
        if exploring and threading.current_thread() is threading.main_thread():
            sleep(seconds)
        elif connection.in_atomic_block:
            judge.refuse("It waits while its transaction is open and holds locks.")
        else:
            waits.append(seconds)

    with patch("time.sleep", wait):
        yield waits


def fails(error: Exception, cause: Exception | None) -> tuple[int, list[float], Any]:
    """Call retried() with work that always fails; return the attempts, waits and result."""
    attempts = 0

    def work() -> None:
        nonlocal attempts
        attempts += 1
        if attempts > ENOUGH:
            judge.refuse(f"After {ENOUGH} attempts it still tries: limit the loop.")
        raise error from cause

    with waits_skipped(exploring=False) as waits:
        try:
            told: Any = retried(work)
        except Exception as raised:
            told = raised
    return attempts, waits, told


def test_two_add(interleave: Any) -> None:
    level = "repeatable read"
    with waits_skipped():
        interleave(adds, adds, invariant=all_have_added, isolation_level=level)


def test_two_meet_in_a_deadlock(interleave: Any) -> None:
    def both(*keys: str) -> Any:
        return lambda: retried(lambda: [update_returning.resolve(key).key for key in keys])

    def all_count(outcomes: list[Outcome]) -> str:
        if [each.returned for each in outcomes] != [["a", "b"], ["b", "a"]]:
            return f"the calls have returned {[each.returned for each in outcomes]}"
        return judge.changed(a={"hits": 2}, b={"hits": 9})

    with waits_skipped():
        interleave(both("a", "b"), both("b", "a"), invariant=all_count)


def test_in_a_transaction_of_the_caller_nothing_can_be_run_again(interleave: Any) -> None:
    """The caller has to get the error, because only the caller can run its transaction again."""
    with waits_skipped():
        both = [judge.in_a_transaction(adds)] * 2
        level = "repeatable read"
        interleave(*both, invariant=all_have_added, isolation_level=level, expected=DatabaseError)


def test_it_gives_up_with_the_error(interleave: Any) -> None:
    for cause in (errors.SerializationFailure(), errors.DeadlockDetected()):
        attempts, _, told = fails(OperationalError("refused"), cause)
        if not LEAST <= attempts <= MOST:
            judge.refuse(f"{attempts} attempts, expected {LEAST} to {MOST} ({cause!r}).")
        if not isinstance(told, Exception):
            judge.refuse(f"All attempts have failed, and the caller gets {told!r}.")


def test_it_waits_longer_each_time(interleave: Any) -> None:
    random.seed(1)
    failure = OperationalError("refused"), errors.SerializationFailure()
    samples = [fails(*failure)[1] for _ in range(SAMPLES)]
    attempts = fails(*failure)[0]
    if attempts < LEAST or any(len(each) != attempts - 1 for each in samples):
        judge.refuse(
            f"In {attempts} attempts it waits {len(samples[0])} times, expected {attempts - 1}."
        )
    means = [statistics.mean(each) for each in zip(*samples, strict=True)]
    if means[-1] <= means[0]:
        judge.refuse(
            f"It waits {means[0]:.3f} s first and {means[-1]:.3f} s last, expected a longer wait."
        )
    if len({tuple(each) for each in samples}) == 1:
        judge.refuse("Two refused processes wait equally long: add a random part.")


def test_other_errors_are_raised_at_once(interleave: Any) -> None:
    others: list[tuple[Exception, Exception | None]] = [
        (IntegrityError("duplicate key"), errors.UniqueViolation()),
        (OperationalError("lock timeout"), judge.LockNotAvailable()),
        (OperationalError("the connection is lost"), None),
        (ShortUrl.DoesNotExist("a"), None),
    ]
    for error, cause in others:
        attempts, _, told = fails(error, cause)
        if (attempts, told) != (1, error):
            judge.refuse(
                f"{attempts} attempts for {error!r}, expected 1, and the caller gets {told!r}."
            )
