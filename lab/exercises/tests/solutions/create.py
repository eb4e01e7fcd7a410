"""Solutions of the exercise `create`."""

import itertools
from typing import Any

from django.db import DatabaseError, IntegrityError, OperationalError, transaction

from lab.exercises.tests.solutions import sql
from shorturl.links.keys import is_collision
from shorturl.models import ShortUrl
from shorturl.strategies.creating import on_conflict, savepoint, table_lock

exhausted = ShortUrl.KeySpaceExhausted


def insert(key, target_url):
    with transaction.atomic():
        return ShortUrl.objects.create(key=key, target_url=target_url)


def first_free(target_url, keys, is_taken=is_collision):
    for key in keys:
        try:
            return insert(key, target_url)
        except DatabaseError as error:
            if not is_taken(error):
                raise
    raise exhausted(keys)


# Right ones, in addition to the strategies.


def with_created(target_url, *, keys):
    for key in keys:
        made, created = ShortUrl.objects.get_or_create(key=key, defaults={"target_url": target_url})
        if created:
            return made
    raise exhausted(keys)


def by_recursion(target_url, *, keys):
    left = iter(keys)
    key = next(left, None)
    if key is None:
        raise exhausted([])
    try:
        return insert(key, target_url)
    except IntegrityError as error:
        if not is_collision(error):
            raise
        return by_recursion(target_url, keys=left)


RIGHT: list[Any] = [
    with_created, by_recursion, savepoint.create, on_conflict.create, table_lock.create,
]  # fmt: skip


# Wrong ones.


def never_ends(target_url, *, keys):
    candidates = itertools.cycle(keys)
    while True:
        try:
            return insert(next(candidates), target_url)
        except IntegrityError:
            pass


def not_saved(target_url, *, keys):
    for key in keys:
        if not ShortUrl.objects.filter(key=key).exists():
            return ShortUrl(key=key, target_url=target_url)
    raise exhausted(keys)


def deletes(target_url, *, keys):
    key = next(iter(keys))
    with transaction.atomic():
        ShortUrl.objects.filter(key=key).erase()
        return ShortUrl.objects.create(key=key, target_url=target_url)


def created_is_not_looked_at(target_url, *, keys):
    for key in keys:
        return ShortUrl.objects.get_or_create(key=key, defaults={"target_url": target_url})[0]
    raise exhausted(keys)


def none_when_exhausted(target_url, *, keys):
    try:
        return first_free(target_url, keys)
    except exhausted:
        return None


def another_exception(target_url, *, keys):
    try:
        return first_free(target_url, keys)
    except exhausted as error:
        raise ValueError("no key is left") from error


def caught_inside(target_url, *, keys):
    for key in keys:
        try:
            return ShortUrl.objects.create(key=key, target_url=target_url)
        except IntegrityError as error:
            if not is_collision(error):
                raise
    raise exhausted(keys)


# Earlier tests accepted these.


def every_integrity_error(target_url, *, keys):
    return first_free(target_url, keys, lambda error: isinstance(error, IntegrityError))


def a_lock_timeout_is_a_collision(target_url, *, keys):
    def is_taken(error):
        return isinstance(error, OperationalError) or is_collision(error)

    return first_free(target_url, keys, is_taken)


def a_key_of_its_own(target_url, *, keys):
    return first_free(target_url, [*keys, "spare"])


def revives_a_deleted_key(target_url, *, keys):
    for key in keys:
        deleted = ShortUrl.objects.filter(key=key).exclude(deleted_at=None)
        if deleted.update(deleted_at=None, target_url=target_url):
            return ShortUrl.objects.get(key=key)
        made = ShortUrl.objects.get_or_create(key=key, defaults={"target_url": target_url})
        if made[1]:
            return made[0]
    raise exhausted(keys)


def a_lock_that_ends_too_early(target_url, *, keys):
    for key in keys:
        sql("SELECT pg_advisory_lock(hashtext(%s))", key)
        try:
            if not ShortUrl.objects.filter(key=key).exists():
                return ShortUrl.objects.create(key=key, target_url=target_url)
        finally:
            sql("SELECT pg_advisory_unlock(hashtext(%s))", key)
    raise exhausted(keys)


def rolls_the_caller_back(target_url, *, keys):
    for key in keys:
        try:
            return ShortUrl.objects.create(key=key, target_url=target_url)
        except DatabaseError as error:
            if not is_collision(error):  # type: ignore[arg-type]  # the mistake
                raise
            sql("ROLLBACK")
    raise exhausted(keys)


WRONG: dict[Any, str] = {
    never_ends: "A process may try for ever",
    not_saved: "the link same is not in the database",
    deletes: "process 2 gets <ShortUrl: same>, expected a new link",
    created_is_not_looked_at: "process 1 gets a, which is not one of its keys",
    none_when_exhausted: "process 1 gets None, expected KeySpaceExhausted",
    another_exception: "process 1 raises ValueError",
    caught_inside: "catch the error outside it",
    every_integrity_error: "refuses the write (a CHECK), and process 1 raises KeySpaceExhausted",
    a_lock_timeout_is_a_collision: "(a lock_timeout), and process 1 raises KeySpaceExhausted",
    a_key_of_its_own: "process 1 gets <ShortUrl: spare>, expected KeySpaceExhausted",
    revives_a_deleted_key: "process 1 gets deleted, which is not one of its keys",
    a_lock_that_ends_too_early: "still holds an advisory lock",
    rolls_the_caller_back: "raises TransactionManagementError",
}
