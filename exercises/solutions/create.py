"""Solutions of the exercise `create`: RIGHT ones, and WRONG ones with why they are refused."""

import itertools
import threading
from typing import Any

from django.db import DatabaseError, IntegrityError, OperationalError, connection, transaction

from shorturl.links.keys import is_collision
from shorturl.models import ShortUrl

LOCK = threading.Lock()
exhausted = ShortUrl.KeySpaceExhausted


def insert(key, target_url, **fields):
    with transaction.atomic():
        return ShortUrl.objects.create(key=key, target_url=target_url, **fields)


def sql(text, *values):
    with connection.cursor() as cursor:
        cursor.execute(text, values)
        return cursor.fetchall() if cursor.description else []


# Right ones.


def a_savepoint(target_url, *, keys):
    for key in keys:
        try:
            return insert(key, target_url)
        except IntegrityError as error:
            if not is_collision(error):
                raise
    raise exhausted(keys)


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


def on_conflict(target_url, *, keys):
    for key in keys:
        made = ShortUrl.objects.raw(
            "INSERT INTO shorturl_shorturl (key, target_url) VALUES (%s, %s)"
            " ON CONFLICT (key) DO NOTHING RETURNING *",
            [key, target_url],
        )
        for link in made:
            return link
    raise exhausted(keys)


def a_table_lock(target_url, *, keys):
    with transaction.atomic():
        sql("LOCK TABLE shorturl_shorturl IN SHARE ROW EXCLUSIVE MODE")
        for key in keys:
            if not ShortUrl.objects.filter(key=key).exists():
                return ShortUrl.objects.create(key=key, target_url=target_url)
    raise exhausted(keys)


RIGHT: list[Any] = [
    a_savepoint, with_created, by_recursion, on_conflict, a_table_lock,
]  # fmt: skip


# Wrong ones.


def never_ends(target_url, *, keys):
    candidates = itertools.cycle(keys)
    while True:
        try:
            return insert(next(candidates), target_url)
        except IntegrityError:
            pass


def except_exception(target_url, *, keys):
    for key in keys:
        try:
            return insert(key, target_url)
        except Exception:
            continue
    raise exhausted(keys)


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


def a_python_lock(target_url, *, keys):
    with LOCK:
        for key in keys:
            if not ShortUrl.objects.filter(key=key).exists():
                return ShortUrl.objects.create(key=key, target_url=target_url)
    raise exhausted(keys)


def none_when_exhausted(target_url, *, keys):
    for key in keys:
        try:
            return insert(key, target_url)
        except IntegrityError as error:
            if not is_collision(error):
                raise
    return None


def ignore_conflicts(target_url, *, keys):
    for key in keys:
        link = ShortUrl(key=key, target_url=target_url)
        ShortUrl.objects.bulk_create([link], ignore_conflicts=True)
        return ShortUrl.objects.get(key=key)
    raise exhausted(keys)


def another_exception(target_url, *, keys):
    for key in keys:
        try:
            return insert(key, target_url)
        except IntegrityError as error:
            if not is_collision(error):
                raise
    raise ValueError("no key is left")


def caught_inside(target_url, *, keys):
    for key in keys:
        try:
            return ShortUrl.objects.create(key=key, target_url=target_url)
        except IntegrityError as error:
            if not is_collision(error):
                raise
    raise exhausted(keys)


# These were tried on the first judges, and passed.


def every_integrity_error(target_url, *, keys):
    for key in keys:
        try:
            return insert(key, target_url)
        except IntegrityError:
            continue
    raise exhausted(keys)


def a_lock_timeout_is_a_collision(target_url, *, keys):
    for key in keys:
        try:
            return insert(key, target_url)
        except OperationalError:
            continue
        except IntegrityError as error:
            if not is_collision(error):
                raise
    raise exhausted(keys)


def a_key_of_its_own(target_url, *, keys):
    for key in [*keys, "spare"]:
        try:
            return insert(key, target_url)
        except IntegrityError as error:
            if not is_collision(error):
                raise
    raise exhausted(keys)


def revives_a_deleted_key(target_url, *, keys):
    for key in keys:
        deleted = ShortUrl.objects.filter(key=key).exclude(deleted_at=None)
        if deleted.update(deleted_at=None, target_url=target_url):
            return ShortUrl.objects.get(key=key)
        made = ShortUrl.objects.get_or_create(key=key, defaults={"target_url": target_url})
        if made[1]:
            return made[0]
    raise exhausted(keys)


def a_lock_on_hash(target_url, *, keys):
    with transaction.atomic():
        for key in keys:
            sql("SELECT pg_advisory_xact_lock(%s)", hash(key) % 2**31)
            if not ShortUrl.objects.filter(key=key).exists():
                return ShortUrl.objects.create(key=key, target_url=target_url)
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
    except_exception: "refuses the write (a CHECK), and process 1 is told KeySpaceExhausted",
    not_saved: "the link same is not in the database",
    deletes: "process 2 is returned <ShortUrl: same>, due a link of its own",
    created_is_not_looked_at: "process 1 is returned a, which is none of its keys",
    a_python_lock: "A process waits in Python",
    none_when_exhausted: "process 1 is returned None, due KeySpaceExhausted",
    ignore_conflicts: "process 1 is returned a, which is none of its keys",
    another_exception: "process 1 raises ValueError",
    caught_inside: "catch the error outside of that",
    every_integrity_error: "refuses the write (a CHECK), and process 1 is told KeySpaceExhausted",
    a_lock_timeout_is_a_collision: "(a lock_timeout), and process 1 is told KeySpaceExhausted",
    a_key_of_its_own: "process 1 is returned <ShortUrl: spare>, due KeySpaceExhausted",
    revives_a_deleted_key: "process 1 is returned deleted, which is none of its keys",
    a_lock_on_hash: "process 2 raises IntegrityError",
    a_lock_that_ends_too_early: "still holds an advisory lock",
    rolls_the_caller_back: "raises TransactionManagementError",
}
