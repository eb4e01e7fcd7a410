"""Solutions of the exercise `retry`."""

import random
import time
from contextlib import nullcontext
from functools import partial
from itertools import count
from typing import Any

from django.db import DatabaseError, OperationalError, connection, transaction
from django.db.backends.postgresql.psycopg_any import errors

AGAIN = errors.SerializationFailure, errors.DeadlockDetected


def wait(attempt):
    time.sleep(random.uniform(0, 0.01 * 2**attempt))


def helps(error):
    return isinstance(error.__cause__, AGAIN)


def a_loop(work, *, last=4, helps=helps, wait=wait, block=transaction.atomic):
    for attempt in count():
        try:
            with block():
                return work()
        except DatabaseError as error:
            if attempt == last or not helps(error):
                raise
        wait(attempt)


# Right ones.


def of_durable_blocks(work):
    return a_loop(work, block=partial(transaction.atomic, durable=True))


def by_itself(work, attempt=0):
    try:
        with transaction.atomic():
            return work()
    except OperationalError as error:
        mine = not connection.in_atomic_block
        if attempt > 5 or not mine or not helps(error):
            raise
    wait(attempt)
    return by_itself(work, attempt + 1)


RIGHT: list[Any] = [of_durable_blocks, by_itself]


# Wrong ones.


def in_the_callers_transaction(work):
    return a_loop(work)


def without_a_bound(work):
    return a_loop(work, last=None)


def inside_the_transaction(work):
    with transaction.atomic():
        return a_loop(work, wait=lambda _: None)


def without_a_wait(work):
    return a_loop(work, wait=lambda _: None)


def waits_with_its_locks(work):
    for attempt in range(5):
        with transaction.atomic():
            try:
                with transaction.atomic():
                    return work()
            except OperationalError as error:
                if attempt == 4 or not helps(error):
                    raise
                wait(attempt)


def as_long_each_time(work):
    return a_loop(work, wait=lambda _: time.sleep(0.01))


def all_as_long(work):
    return a_loop(work, wait=lambda attempt: time.sleep(0.01 * 2**attempt))


def after_any_error(work):
    return a_loop(work, helps=lambda _: True)


def gives_up_in_silence(work):
    try:
        return a_loop(work)
    except OperationalError as error:
        if not helps(error):
            raise


def not_after_a_deadlock(work):
    refused = errors.SerializationFailure
    return a_loop(work, helps=lambda error: isinstance(error.__cause__, refused))


def twice(work):
    return a_loop(work, last=1)


def without_a_transaction(work):
    return a_loop(work, block=nullcontext)


WRONG: dict[Any, str] = {
    in_the_callers_transaction: "It waits while its transaction is open",
    without_a_bound: "limit the loop",
    inside_the_transaction: "raises OperationalError",
    without_a_wait: "it waits 0 times, expected 4",
    waits_with_its_locks: "It waits while its transaction is open",
    as_long_each_time: "expected a longer wait",
    all_as_long: "add a random part",
    after_any_error: "5 attempts for IntegrityError",
    gives_up_in_silence: "the caller gets None",
    not_after_a_deadlock: "raises OperationalError",
    twice: "2 attempts, expected 3 to 20",
    without_a_transaction: "calls have succeeded, and returned",
}
