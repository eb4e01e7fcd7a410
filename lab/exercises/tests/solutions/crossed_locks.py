"""Solutions of the exercise `crossed_locks`."""

from typing import Any

from django.db import DatabaseError, OperationalError, transaction
from django.db.backends.postgresql.psycopg_any import errors

from shorturl.models import ShortUrl
from shorturl.strategies.resolving import update_returning


def both(first, second):
    with transaction.atomic():
        return update_returning.resolve(first), update_returning.resolve(second)


# Right ones.


def in_one_order(first, second):
    with transaction.atomic():
        found = [(key, update_returning.resolve(key)) for key in sorted((first, second))]
    by_key = dict(found)
    return by_key[first], by_key[second]


def locked_in_one_order(first, second):
    with transaction.atomic():
        [*ShortUrl.objects.select_for_update().filter(key__in=[first, second]).order_by("key")]
        return update_returning.resolve(first), update_returning.resolve(second)


def tried_again(first, second):
    for _ in range(20):
        try:
            return both(first, second)
        except OperationalError as error:
            if not isinstance(error.__cause__, errors.DeadlockDetected):
                raise
    raise ShortUrl.Contended(f"{first} and {second}", 20)


RIGHT: list[Any] = [in_one_order, tried_again, locked_in_one_order]


# Wrong ones.


def no_transaction(first, second):
    return update_returning.resolve(first), update_returning.resolve(second)


def caught_inside(first, second):
    with transaction.atomic():
        one = update_returning.resolve(first)
        try:
            return one, update_returning.resolve(second)
        except OperationalError:
            return one, update_returning.resolve(second)


def in_the_wrong_order(first, second):
    with transaction.atomic():
        return [update_returning.resolve(key) for key in sorted((first, second))]


# Earlier tests accepted these.


def the_same_key_once(first, second):
    with transaction.atomic():
        found = {key: update_returning.resolve(key) for key in sorted({first, second})}
    return found[first], found[second]


def on_hashes(first, second):
    with transaction.atomic():
        found = [(key, update_returning.resolve(key)) for key in sorted((first, second), key=hash)]
    return dict(found)[first], dict(found)[second]


def tried_twice_in_all(first, second):
    try:
        return both(first, second)
    except DatabaseError:
        return no_transaction(first, second)


def tries_for_ever(first, second):
    while True:
        try:
            return both(first, second)
        except OperationalError:
            pass


def half_is_enough(first, second):
    one, other = sorted((first, second))
    with transaction.atomic():
        found = {one: update_returning.resolve(one)}
        try:
            with transaction.atomic():
                found[other] = update_returning.resolve(other)
        except ShortUrl.DoesNotExist:
            found[other] = found[one]
        if one == other:
            update_returning.resolve(one)
    return found[first], found[second]


WRONG: dict[Any, str] = {
    no_transaction: "half of the call is counted: hits of a = 1, expected 0",
    caught_inside: "A deadlock is impossible if",
    in_the_wrong_order: "process 2 resolves ('b', 'a'), and gets",
    the_same_key_once: "hits of a = 1, expected 2",
    on_hashes: "A deadlock is impossible if",
    tried_twice_in_all: "hits of a = 1, expected 0",
    tries_for_ever: "A process may try for ever",
    half_is_enough: "expected DoesNotExist",
}
