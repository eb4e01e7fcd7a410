"""What people hand in as a resolve, and the judge refuses; WORKSHOP.md says with which words."""

import fcntl
import tempfile
import threading
import time
from collections import defaultdict
from functools import cache
from pathlib import Path

from django.core.cache import cache as shared
from django.db import OperationalError, connection, transaction
from django.db.models import F
from django.http import Http404

from lab.workshop.wrong_solutions.locks import IMPORTED
from shorturl.models import ShortUrl

LOCK = threading.Lock()
LOCKS: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def every_link(key: str) -> ShortUrl:
    ShortUrl.objects.update(hits=F("hits") + 1)
    return ShortUrl.objects.get(key=key)


def none_for_an_unknown_key(key: str) -> ShortUrl | None:
    ShortUrl.objects.filter(key=key).update(hits=F("hits") + 1)
    return ShortUrl.objects.filter(key=key).first()


def a_python_lock(key: str) -> ShortUrl:
    with LOCK:
        short_url = ShortUrl.objects.get(key=key)
        short_url.hits += 1
        short_url.save(update_fields=["hits"])
    return short_url


def an_imported_lock(key: str) -> ShortUrl:
    with IMPORTED:
        short_url = ShortUrl.objects.get(key=key)
        short_url.hits += 1
        short_url.save(update_fields=["hits"])
    return short_url


def a_lock_for_each_key(key: str) -> ShortUrl:
    with LOCKS[key]:
        short_url = ShortUrl.objects.get(key=key)
        short_url.hits += 1
        short_url.save(update_fields=["hits"])
    return short_url


def a_file_lock(key: str) -> ShortUrl:
    with Path(tempfile.gettempdir(), f"{key}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        short_url = ShortUrl.objects.get(key=key)
        short_url.hits += 1
        short_url.save(update_fields=["hits"])
    return short_url


def a_lock_in_the_cache(key: str) -> ShortUrl:
    while not shared.add(f"lock-{key}", 1, timeout=10):
        time.sleep(0.01)
    try:
        short_url = ShortUrl.objects.get(key=key)
        short_url.hits += 1
        short_url.save(update_fields=["hits"])
    finally:
        shared.delete(f"lock-{key}")
    return short_url


def sleep_and_read(key: str) -> ShortUrl:
    time.sleep(0.01)
    short_url = ShortUrl.objects.get(key=key)
    short_url.hits += 1
    short_url.save(update_fields=["hits"])
    return short_url


@cache
def remembered(key: str) -> ShortUrl:
    ShortUrl.objects.filter(key=key).update(hits=F("hits") + 1)
    return ShortUrl.objects.get(key=key)


def another_exception(key: str) -> ShortUrl:
    if not ShortUrl.objects.filter(key=key).update(hits=F("hits") + 1):
        raise Http404
    return ShortUrl.objects.get(key=key)


def the_number(key: str) -> int:
    ShortUrl.objects.filter(key=key).update(hits=F("hits") + 1)
    return ShortUrl.objects.get(key=key).hits


def compared_once(key: str) -> ShortUrl:
    short_url = ShortUrl.objects.get(key=key)
    ShortUrl.objects.filter(key=key, hits=short_url.hits).update(hits=F("hits") + 1)
    return short_url


def no_transaction(key: str) -> ShortUrl:
    short_url = ShortUrl.objects.select_for_update().get(key=key)
    short_url.hits += 1
    short_url.save(update_fields=["hits"])
    return short_url


def session_lock(key: str) -> ShortUrl:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [key])
    short_url = ShortUrl.objects.get(key=key)
    short_url.hits += 1
    short_url.save(update_fields=["hits"])
    return short_url


def _count(key: str) -> None:
    try:
        ShortUrl.objects.filter(key=key).update(hits=F("hits") + 1)
    finally:
        connection.close()


def a_thread(key: str) -> ShortUrl:
    short_url = ShortUrl.objects.get(key=key)
    threading.Thread(target=_count, args=[key]).start()
    return short_url


def a_connection_of_its_own(key: str) -> ShortUrl:
    own = connection.copy()
    try:
        with own.cursor() as cursor:
            cursor.execute("SELECT hits FROM shorturl_shorturl WHERE key = %s", [key])
            (hits,) = cursor.fetchone()
            cursor.execute("UPDATE shorturl_shorturl SET hits = %s WHERE key = %s", [hits + 1, key])
    finally:
        own.close()
    return ShortUrl.objects.get(key=key)


def nowait(key: str) -> ShortUrl:
    with transaction.atomic():
        short_url = ShortUrl.objects.select_for_update(nowait=True).get(key=key)
        short_url.hits += 1
        short_url.save(update_fields=["hits"])
    return short_url


def nowait_for_ever(key: str) -> ShortUrl:
    while True:
        try:
            return nowait(key)
        except OperationalError:
            pass


def skip_locked(key: str) -> ShortUrl:
    with transaction.atomic():
        short_url = ShortUrl.objects.select_for_update(skip_locked=True).get(key=key)
        short_url.hits += 1
        short_url.save(update_fields=["hits"])
    return short_url


def repeatable_read_without_a_retry(key: str) -> ShortUrl:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        short_url = ShortUrl.objects.get(key=key)
        short_url.hits += 1
        short_url.save(update_fields=["hits"])
    return short_url


def refresh_first(key: str) -> ShortUrl:
    short_url = ShortUrl.objects.get(key=key)
    short_url.refresh_from_db()
    short_url.hits += 1
    short_url.save(update_fields=["hits"])
    return short_url


def full_save(key: str) -> ShortUrl:
    short_url = ShortUrl.objects.get(key=key)
    short_url.hits = F("hits") + 1
    short_url.save()
    return short_url


def not_saved(key: str) -> ShortUrl:
    short_url = ShortUrl.objects.get(key=key)
    short_url.hits += 1
    return short_url


def lock_and_then_read_before(key: str) -> ShortUrl:
    short_url = ShortUrl.objects.get(key=key)
    with transaction.atomic():
        ShortUrl.objects.select_for_update().get(key=key)
        short_url.hits += 1
        short_url.save(update_fields=["hits"])
    return short_url


def autocommit_off(key: str) -> ShortUrl:
    transaction.set_autocommit(False)
    short_url = ShortUrl.objects.select_for_update().get(key=key)
    short_url.hits += 1
    short_url.save(update_fields=["hits"])
    return short_url


COUNTED: dict[str, int] = {}


def counted_in_python(key: str) -> ShortUrl:
    COUNTED[key] = COUNTED.get(key, 0) + 1
    ShortUrl.objects.filter(key=key).update(hits=COUNTED[key])
    return ShortUrl.objects.get(key=key)


def deleted_and_made_again(key: str) -> ShortUrl:
    old = ShortUrl.objects.get(key=key)
    with transaction.atomic():
        ShortUrl.objects.filter(key=key).erase()
        return ShortUrl.objects.create(key=key, target_url=old.target_url, hits=old.hits + 1)
