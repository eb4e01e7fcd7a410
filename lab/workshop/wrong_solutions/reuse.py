"""What people hand in as a reuse, and the judge refuses; WORKSHOP.md says with which words."""

import threading
from collections.abc import Callable
from hashlib import sha256

from django.db import connection, transaction
from django.db.models import QuerySet

from shorturl.models import ReuseClaim, ShortUrl

LOCK = threading.Lock()
BY_NAME = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
Reused = tuple[ShortUrl, bool]


def _links(target_url: str, owner_id: int | None) -> QuerySet[ShortUrl]:
    found = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
    return found.order_by("id")


def in_a_transaction(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> Reused:
    with transaction.atomic():
        found = _links(target_url, owner_id).first()
        return (found, False) if found else (create(), True)


def locks_what_is_there(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> Reused:
    with transaction.atomic():
        found = _links(target_url, owner_id).select_for_update().first()
        return (found, False) if found else (create(), True)


def a_python_lock(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> Reused:
    with LOCK:
        found = _links(target_url, owner_id).first()
        return (found, False) if found else (create(), True)


def lets_go_too_early(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> Reused:
    with connection.cursor() as cursor:
        cursor.execute(BY_NAME, [f"{owner_id} {target_url}"])
    found = _links(target_url, owner_id).first()
    return (found, False) if found else (create(), True)


def looks_before_it_locks(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> Reused:
    found = _links(target_url, owner_id).first()
    if found:
        return found, False
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(BY_NAME, [f"{owner_id} {target_url}"])
        return create(), True


def looks_afterwards(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> Reused:
    found = _links(target_url, owner_id).first()
    if found:
        return found, False
    made = create()
    oldest = _links(target_url, owner_id)[0]
    if oldest != made:
        made.delete()
    return oldest, oldest == made


def claims_once(target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]) -> Reused:
    digest = sha256(f"{owner_id} {target_url}".encode()).digest()
    with transaction.atomic():
        ReuseClaim.objects.bulk_create([ReuseClaim(digest=digest)], ignore_conflicts=True)
        found = _links(target_url, owner_id).first()
        return (found, False) if found else (create(), True)


def serializable_without_a_retry(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> Reused:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        found = _links(target_url, owner_id).first()
        return (found, False) if found else (create(), True)


def always_a_new_one(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> Reused:
    return create(), True


def anybodys(target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]) -> Reused:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(BY_NAME, [target_url])
        found = ShortUrl.objects.live().filter(target_url=target_url).order_by("id").first()
        return (found, False) if found else (create(), True)


def only_the_link(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> ShortUrl:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(BY_NAME, [target_url])
        return _links(target_url, owner_id).first() or create()
