"""Solutions of the exercise `reuse`."""

from typing import Any

from django.db import DatabaseError, OperationalError, transaction

from lab.exercises.tests.solutions import BY_NAME, sql
from shorturl.models import ShortUrl
from shorturl.strategies.reusing import on_conflict, serializable


def find_or_make(target_url, owner_id, create):
    links = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
    found = links.order_by("id").first()
    return (found, False) if found else (create(), True)


def locks_one_name_for_all(target_url, *, owner_id, create):
    with transaction.atomic():
        sql(BY_NAME, "all targets")
        return find_or_make(target_url, owner_id, create)


RIGHT: list[Any] = [locks_one_name_for_all, on_conflict.reuse, serializable.reuse]


def locks_the_found_row(target_url, *, owner_id, create):
    with transaction.atomic():
        links = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
        found = links.order_by("id").select_for_update().first()
        return (found, False) if found else (create(), True)


def of_any_owner(target_url, *, owner_id, create):
    with transaction.atomic():
        sql(BY_NAME, target_url)
        found = ShortUrl.objects.live().filter(target_url=target_url).order_by("id").first()
        return (found, False) if found else (create(), True)


def unlocks_before_the_commit(target_url, *, owner_id, create):
    sql("SELECT pg_advisory_lock(hashtext(%s))", target_url)
    try:
        return find_or_make(target_url, owner_id, create)
    finally:
        sql("SELECT pg_advisory_unlock(hashtext(%s))", target_url)


def swallows(target_url, *, owner_id, create):
    with transaction.atomic():
        sql(BY_NAME, f"{owner_id} {target_url}")
        try:
            with transaction.atomic():
                return find_or_make(target_url, owner_id, create)
        except DatabaseError:
            return None, False


def one_attempt_under_serializable(target_url, *, owner_id, create):
    try:
        with transaction.atomic(durable=True):
            sql("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
            return find_or_make(target_url, owner_id, create)
    except OperationalError:
        return find_or_make(target_url, owner_id, create)


WRONG: dict[Any, str] = {
    locks_the_found_row: "is right, as one after the other",
    of_any_owner: "is right",
    unlocks_before_the_commit: "in a transaction",
    swallows: "is right",
    one_attempt_under_serializable: "is right",
}
