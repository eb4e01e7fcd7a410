"""Solutions of the exercises: some RIGHT ones, and WRONG ones.

Each wrong one shows that a test works, and has a part of the sentence that refuses it.
"""

from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F

from shorturl.exceptions import KeySpaceExhausted
from shorturl.models import LinkEvent, ShortUrl
from shorturl.strategies.creating import forgiveness, get_or_create, savepoint
from shorturl.strategies.delivering import delete_returning, select_for_update, skip_locked
from shorturl.strategies.resolving import advisory_lock, atomic_only, compare_and_swap
from shorturl.strategies.resolving import f_expression_full_save as full_save
from shorturl.strategies.reusing import find_then_create, on_conflict, serializable
from shorturl.strategies.spending import conditional_update, read_modify_write


def resolve_and_read_afterwards(key):
    if not ShortUrl.objects.live().filter(key=key).update(hits=F("hits") + 1):
        raise ShortUrl.DoesNotExist(key)
    return ShortUrl.objects.get(key=key)


def resolve_durably(key):
    with transaction.atomic(durable=True):
        short_url = ShortUrl.objects.live().select_for_update().get(key=key)
        short_url.hits += 1
        short_url.save(update_fields=["hits"])
    return short_url


def resolve_without_live(key):
    ShortUrl.objects.filter(key=key).update(hits=F("hits") + 1)
    return ShortUrl.objects.get(key=key)


def create_and_try_one_key(target_url, *, keys):
    try:
        with transaction.atomic():
            return ShortUrl.objects.create(key=next(iter(keys)), target_url=target_url)
    except IntegrityError:
        raise KeySpaceExhausted(keys) from None


def reuse_under_row_locks(target_url, *, owner_id, create):
    with transaction.atomic():
        links = ShortUrl.objects.live().select_for_update()
        oldest = links.filter(owner_id=owner_id, target_url=target_url).order_by("id").first()
        return (oldest, False) if oldest else (create(), True)


def deliver_any_event(subscription_id, send):
    with transaction.atomic():
        events = LinkEvent.objects.filter(subscription_id=subscription_id).order_by("id")
        event = events.select_for_update(skip_locked=True).first()
        if event is None:
            return False
        send(event)
        event.delete()
        return True


RIGHT: list[tuple[str, Any]] = [
    ("resolve", compare_and_swap.resolve),
    ("resolve", resolve_and_read_afterwards),
    ("resolve", resolve_durably),
    ("create", savepoint.create),
    ("reuse", serializable.reuse),
    ("reuse", on_conflict.reuse),
    ("quota", conditional_update.spend),
    ("deliver", skip_locked.deliver),
    ("deliver", select_for_update.deliver),
]
WRONG: list[tuple[str, Any, str]] = [  # None is the function that the exercise begins with
    ("resolve", None, "hits is 3, not 4. It is (["),
    ("create", None, "Right is"),
    ("reuse", None, "Right is"),
    ("quota", None, "2 calls of spend at once with the limit 1"),
    ("deliver", None, "Right is each of them once"),
    ("resolve", atomic_only.resolve, "lost update"),
    ("resolve", full_save.resolve, "and edit("),
    ("resolve", advisory_lock.resolve, "raises IntegrityError"),
    ("resolve", resolve_without_live, "raises IntegrityError"),
    ("create", forgiveness.create, "raises TransactionManagementError"),
    ("create", get_or_create.create, "where ['a'] are taken"),
    ("create", create_and_try_one_key, "raises KeySpaceExhausted"),
    ("reuse", find_then_create.reuse, "with 0 links, reuse at once"),
    ("reuse", reuse_under_row_locks, "Right is"),
    ("quota", read_modify_write.spend, "a create that fails"),
    ("deliver", delete_returning.deliver, "it is not in the table"),
    ("deliver", deliver_any_event, "Right is the order of a link's events"),
]
