"""What people hand in for the last use, and the judge refuses; see WORKSHOP.md."""

from django.db import transaction
from django.db.models import F

from shorturl.models import ShortUrl


def counts_right(key: str) -> ShortUrl:
    if not ShortUrl.objects.filter(key=key).update(hits=F("hits") + 1):
        raise ShortUrl.DoesNotExist(key)
    return ShortUrl.objects.get(key=key)


def none_when_used_up(key: str) -> ShortUrl | None:
    short_url = ShortUrl.objects.live().filter(key=key)
    if not ShortUrl.objects.filter(key=key).exists():
        raise ShortUrl.DoesNotExist(key)
    return ShortUrl.objects.get(key=key) if short_url.update(hits=F("hits") + 1) else None


def in_a_transaction(key: str) -> ShortUrl:
    with transaction.atomic():
        short_url = ShortUrl.objects.live().get(key=key)
        short_url.hits = F("hits") + 1
        short_url.save(update_fields=["hits"])
        return short_url


def looks_before_it_locks(key: str) -> ShortUrl:
    ShortUrl.objects.live().get(key=key)
    with transaction.atomic():
        short_url = ShortUrl.objects.select_for_update().get(key=key)
        short_url.hits += 1
        short_url.save(update_fields=["hits"])
        return short_url


def writes_the_number(key: str) -> ShortUrl:
    short_url = ShortUrl.objects.live().get(key=key)
    short_url.hits += 1
    short_url.save(update_fields=["hits"])
    return short_url


def skip_locked(key: str) -> ShortUrl:
    with transaction.atomic():
        found = ShortUrl.objects.live().select_for_update(skip_locked=True).get(key=key)
        found.hits += 1
        found.save(update_fields=["hits"])
        return found


def writes_the_limit_back(key: str) -> ShortUrl:
    short_url = ShortUrl.objects.live().get(key=key)
    counted = ShortUrl.objects.filter(key=key, hits=short_url.hits)
    if not counted.update(hits=F("hits") + 1, max_hits=short_url.max_hits):
        raise ShortUrl.DoesNotExist(key)
    return short_url
