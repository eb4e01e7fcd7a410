"""Solutions of `retry`: RIGHT ones, and WRONG ones with why they are refused."""

import random
import time
from itertools import count
from typing import Any

from django.db import DatabaseError, OperationalError, connection, transaction
from django.db.backends.postgresql.psycopg_any import errors

AGAIN = errors.SerializationFailure, errors.DeadlockDetected


def wait(attempt):
    time.sleep(random.uniform(0, 0.01 * 2**attempt))


# Right ones.


def in_a_loop(work):
    for attempt in range(5):
        try:
            with transaction.atomic(durable=True):
                return work()
        except OperationalError as error:
            if not isinstance(error.__cause__, AGAIN) or attempt == 4:
                raise
        wait(attempt)


def of_a_durable_block(work):
    for attempt in range(10):
        try:
            with transaction.atomic(durable=True):
                return work()
        except OperationalError as error:
            if type(error.__cause__).__name__ not in ("SerializationFailure", "DeadlockDetected"):
                raise
            last = error
        if attempt < 9:
            wait(attempt)
    raise last


def by_itself(work, attempt=0):
    try:
        with transaction.atomic():
            return work()
    except OperationalError as error:
        mine = not connection.in_atomic_block
        if attempt > 5 or not mine or not isinstance(error.__cause__, AGAIN):
            raise
    wait(attempt)
    return by_itself(work, attempt + 1)


RIGHT: list[Any] = [in_a_loop, of_a_durable_block, by_itself]


# Wrong ones.


def in_the_callers_transaction(work):
    for attempt in range(5):
        try:
            with transaction.atomic():
                return work()
        except OperationalError as error:
            if not isinstance(error.__cause__, AGAIN) or attempt == 4:
                raise
        wait(attempt)


def without_a_bound(work):
    for attempt in count():
        try:
            with transaction.atomic():
                return work()
        except OperationalError as error:
            if not isinstance(error.__cause__, AGAIN):
                raise
        wait(min(attempt, 9))


def inside_the_transaction(work):
    with transaction.atomic():
        for attempt in range(5):
            try:
                with transaction.atomic():
                    return work()
            except OperationalError as error:
                if not isinstance(error.__cause__, AGAIN) or attempt == 4:
                    raise


def without_a_wait(work):
    for attempt in range(5):
        try:
            with transaction.atomic():
                return work()
        except OperationalError as error:
            if not isinstance(error.__cause__, AGAIN) or attempt == 4:
                raise


def waits_with_its_locks(work):
    for attempt in range(5):
        with transaction.atomic():
            try:
                with transaction.atomic():
                    return work()
            except OperationalError as error:
                if not isinstance(error.__cause__, AGAIN) or attempt == 4:
                    raise
                wait(attempt)


def as_long_each_time(work):
    for attempt in range(5):
        try:
            with transaction.atomic():
                return work()
        except OperationalError as error:
            if not isinstance(error.__cause__, AGAIN) or attempt == 4:
                raise
        time.sleep(0.01)


def all_as_long(work):
    for attempt in range(5):
        try:
            with transaction.atomic():
                return work()
        except OperationalError as error:
            if not isinstance(error.__cause__, AGAIN) or attempt == 4:
                raise
        time.sleep(0.01 * 2**attempt)


def after_any_error(work):
    for attempt in range(5):
        try:
            with transaction.atomic():
                return work()
        except DatabaseError:
            if attempt == 4:
                raise
        wait(attempt)


def gives_up_in_silence(work):
    for attempt in range(5):
        try:
            with transaction.atomic():
                return work()
        except OperationalError as error:
            if not isinstance(error.__cause__, AGAIN):
                raise
        if attempt < 4:
            wait(attempt)


def not_after_a_deadlock(work):
    for attempt in range(5):
        try:
            with transaction.atomic():
                return work()
        except OperationalError as error:
            if not isinstance(error.__cause__, errors.SerializationFailure) or attempt == 4:
                raise
        wait(attempt)


def twice(work):
    try:
        with transaction.atomic():
            return work()
    except OperationalError as error:
        if not isinstance(error.__cause__, AGAIN):
            raise
    wait(1)
    with transaction.atomic():
        return work()


def without_a_transaction(work):
    for attempt in range(5):
        try:
            return work()
        except OperationalError as error:
            if not isinstance(error.__cause__, AGAIN) or attempt == 4:
                raise
        wait(attempt)


WRONG: dict[Any, str] = {
    in_the_callers_transaction: "It waits with its transaction open",
    without_a_bound: "let the loop end",
    inside_the_transaction: "raises OperationalError",
    without_a_wait: "it waits 0 times, due 4",
    waits_with_its_locks: "It waits with its transaction open",
    as_long_each_time: "due longer",
    all_as_long: "due by chance",
    after_any_error: "The work is run 5 times for IntegrityError",
    gives_up_in_silence: "the caller is returned None",
    not_after_a_deadlock: "raises OperationalError",
    twice: "The work is run 2 times, due 3 to 20",
    without_a_transaction: "told that they have added one",
}
