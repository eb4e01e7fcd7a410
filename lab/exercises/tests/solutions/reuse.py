"""Solutions of the exercise `reuse`."""

from typing import Any

from django.db import DatabaseError, transaction

from lab.exercises.tests.solutions import BY_NAME, sql
from shorturl.models import ShortUrl
from shorturl.strategies.reusing import advisory_lock, on_conflict, serializable


def _links(target_url, owner_id):
    found = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
    return found.order_by("id")


def _find_or_make(target_url, owner_id, create):
    found = _links(target_url, owner_id).first()
    return (found, False) if found else (create(), True)


# Right ones, in addition to the strategies.


def looks_twice(target_url, *, owner_id, create):
    found = _links(target_url, owner_id).first()
    if found:
        return found, False
    with transaction.atomic():
        sql(BY_NAME, f"{owner_id} {target_url}")
        return _find_or_make(target_url, owner_id, create)


RIGHT: list[Any] = [looks_twice, advisory_lock.reuse, on_conflict.reuse, serializable.reuse]


# Wrong ones.


def locks_the_found_row(target_url, *, owner_id, create):
    with transaction.atomic():
        found = _links(target_url, owner_id).select_for_update().first()
        return (found, False) if found else (create(), True)


def lets_go_too_early(target_url, *, owner_id, create):
    sql(BY_NAME, f"{owner_id} {target_url}")
    return _find_or_make(target_url, owner_id, create)


def looks_before_it_locks(target_url, *, owner_id, create):
    found = _links(target_url, owner_id).first()
    if found:
        return found, False
    with transaction.atomic():
        sql(BY_NAME, f"{owner_id} {target_url}")
        return create(), True


def looks_afterwards(target_url, *, owner_id, create):
    found = _links(target_url, owner_id).first()
    if found:
        return found, False
    made = create()
    oldest = _links(target_url, owner_id)[0]
    if oldest != made:
        made.delete()
    return oldest, oldest == made


def serializable_without_a_retry(target_url, *, owner_id, create):
    with transaction.atomic():
        sql("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        return _find_or_make(target_url, owner_id, create)


def always_a_new_one(target_url, *, owner_id, create):
    return create(), True


def only_the_link(target_url, *, owner_id, create):
    return advisory_lock.reuse(target_url, owner_id=owner_id, create=create)[0]


# Earlier tests accepted these.


def any_owner_without_one(target_url, *, owner_id, create):
    with transaction.atomic():
        sql(BY_NAME, target_url)
        found = ShortUrl.objects.live().filter(target_url=target_url).order_by("id")
        if owner_id:
            found = found.filter(owner_id=owner_id)
        oldest = found.first()
        return (oldest, False) if oldest else (create(), True)


def a_lock_for_owners_only(target_url, *, owner_id, create):
    with transaction.atomic():
        if owner_id:
            sql(BY_NAME, f"{owner_id} {target_url}")
        return _find_or_make(target_url, owner_id, create)


def a_lock_for_others_only(target_url, *, owner_id, create):
    with transaction.atomic():
        if owner_id is None:
            sql(BY_NAME, target_url)
        return _find_or_make(target_url, owner_id, create)


def the_youngest(target_url, *, owner_id, create):
    with transaction.atomic():
        sql(BY_NAME, f"{owner_id} {target_url}")
        found = _links(target_url, owner_id).last()
        return (found, False) if found else (create(), True)


def tidies_up(target_url, *, owner_id, create):
    with transaction.atomic():
        sql(BY_NAME, f"{owner_id} {target_url}")
        found = _links(target_url, owner_id).first()
        ShortUrl.objects.filter(target_url=target_url, owner_id=owner_id).exclude(
            pk=found and found.pk
        ).delete()
        return (found, False) if found else (create(), True)


def swallows(target_url, *, owner_id, create):
    with transaction.atomic():
        sql(BY_NAME, f"{owner_id} {target_url}")
        found = _links(target_url, owner_id).first()
        try:
            with transaction.atomic():
                return (found, False) if found else (create(), True)
        except DatabaseError:
            return None, False


WRONG: dict[Any, str] = {
    locks_the_found_row: "processes [1, 2] are told that the link is new, expected one process",
    lets_go_too_early: "processes [1, 2] are told that the link is new, expected one process",
    looks_before_it_locks: "processes [1, 2] are told that the link is new, expected one process",
    looks_afterwards: "processes [1, 2] are told that the link is new, expected one process",
    serializable_without_a_retry: "The whole transaction has to be run again",
    always_a_new_one: "processes [1, 2] are told that the link is new, expected one process",
    only_the_link: "gets <ShortUrl: own1>, expected a ShortUrl and whether it is new",
    any_owner_without_one: "processes [] are told that the link is new, expected one process",
    a_lock_for_owners_only: "processes [1, 2] are told that the link is new, expected one process",
    a_lock_for_others_only: "processes [1, 2] are told that the link is new, expected one process",
    the_youngest: "('there1', False) is returned, expected ('there0', False)",
    tidies_up: "deleted_at of there1",
    swallows: "process 1 returns (None, False)",
}
