"""Solutions of the exercise `resolve`."""

import inspect
import os
import sys
import threading
import time
from functools import cache
from typing import Any

from asgiref.sync import async_to_sync
from django.core.cache import cache as shared
from django.db import DatabaseError, IntegrityError, OperationalError, connection, transaction
from django.db.models import F
from django.http import Http404

from lab.exercises.tests.solutions import BY_NAME, add_one, sql
from shorturl.models import ShortUrl
from shorturl.strategies.resolving import repeatable_read, select_for_update, update_returning

LOCK = threading.Lock()
COUNTED: dict[str, int] = {}
gone = ShortUrl.DoesNotExist


def live(key):
    return ShortUrl.objects.live().filter(key=key)


def read_and_write(key):
    return add_one(live(key).get())


# Right ones, in addition to the strategies.


def one_update(key):
    if not live(key).update(hits=F("hits") + 1):
        raise gone(key)
    return ShortUrl.objects.get(key=key)


def compare_and_swap(key, attempts=100):
    for _ in range(attempts):
        link = live(key).get()
        if live(key).filter(hits=link.hits).update(hits=link.hits + 1):
            return link
    raise ShortUrl.Contended(key, attempts)


async def awaited(key):
    if not await live(key).aupdate(hits=F("hits") + 1):
        raise gone(key)
    return await ShortUrl.objects.aget(key=key)


def asynchronous(key):
    return async_to_sync(awaited)(key)


class Merging:
    """A callable object that sends a rare statement."""

    def __call__(self, key):
        with transaction.atomic():
            ShortUrl.objects.live().select_for_update().get(key=key)
            sql(
                "MERGE INTO shorturl_shorturl AS target USING (SELECT %s AS key) AS asked"
                " ON target.key = asked.key WHEN MATCHED THEN UPDATE SET hits = target.hits + 1",
                key,
            )
        return ShortUrl.objects.get(key=key)


merging = Merging()


def an_advisory_lock(key):
    with transaction.atomic():
        sql(BY_NAME, key)
        link = live(key).get()
        if not live(key).update(hits=F("hits") + 1):  # others edit it without this lock
            raise gone(key)
        return link


def a_session_lock_given_back(key):
    sql("SELECT pg_advisory_lock(hashtext(%s))", key)
    try:
        return one_update(key)
    finally:
        sql("SELECT pg_advisory_unlock(hashtext(%s))", key)


def the_check_decides(key):
    with transaction.atomic():
        ShortUrl.objects.select_for_update().filter(key=key).first()
        link = live(key).get()
        try:
            with transaction.atomic():
                ShortUrl.objects.filter(pk=link.pk).update(hits=F("hits") + 1)
        except IntegrityError as error:
            if "limit_ck" not in str(error):
                raise
            raise gone(key) from error
        return link


RIGHT: list[Any] = [
    one_update, compare_and_swap, asynchronous, merging, an_advisory_lock,
    a_session_lock_given_back, the_check_decides,
    select_for_update.resolve, update_returning.resolve, repeatable_read.resolve,
]  # fmt: skip


# Wrong ones.


def every_link(key):
    ShortUrl.objects.live().update(hits=F("hits") + 1)
    return live(key).get()


def none_for_an_unknown_key(key):
    live(key).update(hits=F("hits") + 1)
    return live(key).first()


def a_python_lock(key):
    with LOCK:
        return read_and_write(key)


def a_lock_in_the_cache(key):
    while not shared.add(f"lock-{key}", 1, timeout=60):
        time.sleep(0.01)
    try:
        return read_and_write(key)
    finally:
        shared.delete(f"lock-{key}")


@cache
def remembered(key):
    return one_update(key)


def another_exception(key):
    try:
        return one_update(key)
    except gone as error:
        raise Http404 from error


def the_number(key):
    return one_update(key).hits


def compared_once(key):
    link = live(key).get()
    live(key).filter(hits=link.hits).update(hits=F("hits") + 1)
    return link


def no_transaction(key):
    return add_one(live(key).select_for_update().get())


def session_lock(key):
    sql("SELECT pg_advisory_lock(hashtextextended(%s, 0))", key)
    return one_update(key)


def a_connection_of_its_own(key):
    link = live(key).get()
    own = connection.copy()
    try:
        with own.cursor() as cursor:
            cursor.execute("UPDATE shorturl_shorturl SET hits = hits + 1 WHERE key = %s", [key])
    finally:
        own.close()
    return link


def nowait(key):
    with transaction.atomic():
        return add_one(live(key).select_for_update(nowait=True).get())


def nowait_for_ever(key):
    while True:
        try:
            return nowait(key)
        except OperationalError:
            pass


def skip_locked(key):
    with transaction.atomic():
        return add_one(live(key).select_for_update(skip_locked=True).get())


def repeatable_read_without_a_retry(key):
    with transaction.atomic():
        sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        return read_and_write(key)


def refresh_first(key):
    link = live(key).get()
    link.refresh_from_db()
    return add_one(link)


def full_save(key):
    link = live(key).get()
    link.hits = F("hits") + 1
    link.save()
    return link


def not_saved(key):
    link = live(key).get()
    link.hits += 1
    return link


def locked_too_late(key):
    link = live(key).get()
    with transaction.atomic():
        ShortUrl.objects.select_for_update().get(key=key)
        return add_one(link)


def autocommit_off(key):
    transaction.set_autocommit(False)
    return add_one(live(key).select_for_update().get())


def counted_in_python(key):
    COUNTED[key] = COUNTED.get(key, 0) + 1
    if not live(key).update(hits=COUNTED[key]):
        raise gone(key)
    return ShortUrl.objects.get(key=key)


def in_a_transaction(key):
    with transaction.atomic():
        link = live(key).get()
        link.hits = F("hits") + 1
        link.save(update_fields=["hits"])
        return link


def writes_the_limit_back(key):
    for _ in range(100):
        link = live(key).get()
        same = live(key).filter(hits=link.hits)
        if same.update(hits=F("hits") + 1, max_hits=link.max_hits):
            return link
    raise ShortUrl.Contended(key, 100)


def the_limit_it_read(key):
    link = live(key).get()
    limit = link.max_hits or 10**9
    if not ShortUrl.objects.filter(key=key, hits__lt=limit).update(hits=F("hits") + 1):
        raise gone(key)
    return link


def one_attempt(key):
    link = live(key).get()
    if not live(key).filter(hits=link.hits).update(hits=F("hits") + 1):
        raise gone(key)
    return link


def counts_and_takes_back(key):
    link = live(key).get()
    sql("UPDATE shorturl_shorturl SET hits = least(hits + 1, max_hits) WHERE key = %s", key)
    return link


# Earlier tests accepted these.


def a_lock_on_hash(key):
    with transaction.atomic():
        sql("SELECT pg_advisory_xact_lock(%s)", hash(key) % 2**31)
        return read_and_write(key)


def a_lock_on_the_pid(key):
    with transaction.atomic():
        sql("SELECT pg_advisory_xact_lock(%s)", os.getpid())
        return read_and_write(key)


def right_where_it_is_watched(key):
    watched = any("pginterleave" in frame.filename for frame in inspect.stack(0))
    return one_update(key) if watched else read_and_write(key)


def right_beside_the_explorer(key):
    return one_update(key) if "pginterleave" in sys.modules else read_and_write(key)


def right_in_its_threads(key):
    named = threading.current_thread().name.startswith("process")
    return one_update(key) if named else read_and_write(key)


def swallows_what_the_database_says(key):
    link = live(key).get()
    try:
        with transaction.atomic():
            live(key).update(hits=F("hits") + 1)
    except DatabaseError:
        pass
    return link


def a_busy_row_leads_nowhere(key):
    try:
        with transaction.atomic():
            return one_update(key)
    except OperationalError as error:
        raise gone(key) from error


def deleted_ones_too(key):
    if not ShortUrl.objects.filter(key=key).update(hits=F("hits") + 1):
        raise gone(key)
    return ShortUrl.objects.get(key=key)


def counts_before_it_looks(key):
    ShortUrl.objects.filter(key=key, max_hits=None).update(hits=F("hits") + 1)
    return live(key).get()


def two_attempts(key):
    return compare_and_swap(key, attempts=2)


def commits_by_itself(key):
    link = one_update(key)
    sql("COMMIT")
    return link


def leaves_a_lock_timeout(key):
    sql("SET lock_timeout = '9s'")
    return one_update(key)


def a_loop_in_python(key):
    while True:
        pass


WRONG: dict[Any, str] = {
    every_link: "hits of b = 8, expected 7",
    none_for_an_unknown_key: "gets None, expected DoesNotExist",
    a_python_lock: "A process waits in Python",
    a_lock_in_the_cache: "A process waits in Python",
    remembered: "hits of a =",
    another_exception: "process 1 raises Http404",
    the_number: "process 1 follows a, and gets 1",
    compared_once: "2 have followed a, and hits of a = 1, expected 2",
    no_transaction: "A row lock lasts until the transaction ends",
    session_lock: "still holds an advisory lock",
    a_connection_of_its_own: "statements were sent past the explorer",
    nowait: "process 2 raises OperationalError",
    nowait_for_ever: "A process may try for ever",
    skip_locked: "process 2 raises DoesNotExist",
    repeatable_read_without_a_retry: "The whole transaction has to be run again",
    refresh_first: "2 have followed a, and hits of a = 1, expected 2",
    full_save: "target_url of a = https://a.example/, expected https://new.example/",
    not_saved: "1 have followed a, and hits of a = 0, expected 1",
    locked_too_late: "2 have followed a, and hits of a = 1, expected 2",
    autocommit_off: "ends inside a transaction",
    counted_in_python: "hits of a =",
    a_lock_on_hash: "2 have followed a, and hits of a = 1, expected 2",
    a_lock_on_the_pid: "2 have followed a, and hits of a = 1, expected 2",
    right_where_it_is_watched: "Threads have followed a 80 times, and hits of a =",
    right_beside_the_explorer: "Threads have followed a 80 times, and hits of a =",
    right_in_its_threads: "Threads have followed a 80 times, and hits of a =",
    swallows_what_the_database_says: "refuses the write (a CHECK), and process 1 returns",
    a_busy_row_leads_nowhere: "refuses the write (a lock_timeout), and process 1 raises DoesNot",
    deleted_ones_too: "process 1 gets <ShortUrl: deleted>, expected DoesNotExist",
    counts_before_it_looks: "hits of deleted = 1, expected 0",
    two_attempts: "raises Contended",
    commits_by_itself: "the caller's transaction was rolled back, and this is not undone",
    leaves_a_lock_timeout: "the settings of the caller's transaction have changed",
    a_loop_in_python: "A process waits in Python, for ever",
    in_a_transaction: "raises IntegrityError",
    writes_the_limit_back: "max_hits of a = None, expected 9",
    the_limit_it_read: "a ended with 0 hits, 1 followed it, and hits of a = 1, expected 0",
    one_attempt: "raises DoesNotExist",
    counts_and_takes_back: "a has 1 uses left, and 2 of 2 have followed it",
}
