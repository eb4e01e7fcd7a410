"""Solutions of the exercise `resolve`."""

import threading
from typing import Any

from django.db import DatabaseError, transaction
from django.db.models import F

from lab.exercises.tests.solutions import BY_NAME, sql
from shorturl.models import ShortUrl
from shorturl.strategies.resolving import repeatable_read

LOCK = threading.Lock()
gone = ShortUrl.DoesNotExist


def live(key):
    return ShortUrl.objects.live().filter(key=key)


def add_one(link):
    link.hits += 1
    link.save(update_fields=["hits"])
    return link


def reads_after_the_update(key):
    if not live(key).update(hits=F("hits") + 1):
        raise gone(key)
    return ShortUrl.objects.get(key=key)


def compare_and_swap(key, attempts=20):
    for _ in range(attempts):
        link = live(key).get()
        if live(key).filter(hits=link.hits).update(hits=link.hits + 1):
            return link
    raise ShortUrl.Contended(key, attempts)


def a_function_of_the_server(key):
    with transaction.atomic():
        sql(
            "CREATE OR REPLACE FUNCTION pg_temp.count_hit(text) RETURNS SETOF shorturl_shorturl"
            " LANGUAGE sql AS $$ UPDATE shorturl_shorturl SET hits = hits + 1 WHERE key = $1"
            " AND deleted_at IS NULL AND (expires_at IS NULL OR expires_at > now())"
            " AND (max_hits IS NULL OR hits < max_hits) RETURNING * $$"
        )
        found = [*ShortUrl.objects.raw("SELECT * FROM pg_temp.count_hit(%s)", [key])]
    if not found:
        raise gone(key)
    return found[0]


RIGHT: list[Any] = [
    reads_after_the_update, compare_and_swap, a_function_of_the_server, repeatable_read.resolve,
]  # fmt: skip


def full_save(key):
    with transaction.atomic():
        link = live(key).get()
        ShortUrl.objects.select_for_update().get(key=key)
        link.hits = F("hits") + 1
        link.save()
        return link


def two_attempts(key):
    return compare_and_swap(key, attempts=2)


def a_lock_on_hash(key):
    with transaction.atomic():
        sql("SELECT pg_advisory_xact_lock(%s)", hash(key))
        return add_one(live(key).get())


def a_python_lock(key):
    with LOCK:
        return add_one(live(key).get())


def for_ever(key):
    while True:
        link = live(key).get()
        if live(key).filter(hits=link.hits).update(hits=link.hits + 1):
            return link


def the_cause_is_lost(key):
    try:
        return reads_after_the_update(key)
    except DatabaseError:
        raise ShortUrl.Contended(key, 1) from None


def an_error_of_the_read_is_no_link(key):
    try:
        with transaction.atomic():
            link = live(key).select_for_update().get()
    except Exception:
        raise gone(key) from None
    live(key).update(hits=F("hits") + 1)
    return link


def a_lock_outlives_the_call(key):
    sql("SELECT pg_advisory_lock(hashtextextended(%s, 0))", key)
    return reads_after_the_update(key)


def reads_before_it_locks(key):
    link = live(key).get()
    with transaction.atomic():
        sql(BY_NAME, key)
        return add_one(link)


WRONG: dict[Any, str] = {
    full_save: "title of a is '', and 'new' is right",
    two_attempts: "raises Contended",
    a_lock_on_hash: "processes of the operating system",
    a_python_lock: "A process waits in Python",
    for_ever: "the call does not end",
    the_cause_is_lost: "The error of the database is right",
    an_error_of_the_read_is_no_link: "another session has locked the table",
    a_lock_outlives_the_call: "an advisory lock",
    reads_before_it_locks: "hits of a is 1, and 2 is right",
}
