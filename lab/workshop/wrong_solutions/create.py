"""What people hand in as a create, and the judge refuses; WORKSHOP.md says with which words."""

import itertools
import threading
from collections.abc import Iterable

from django.db import IntegrityError, transaction

from shorturl.models import ShortUrl

LOCK = threading.Lock()


def never_ends(target_url: str, *, keys: Iterable[str]) -> ShortUrl:
    candidates = itertools.cycle(keys)
    while True:
        try:
            with transaction.atomic():
                return ShortUrl.objects.create(key=next(candidates), target_url=target_url)
        except IntegrityError:
            pass


def except_exception(target_url: str, *, keys: Iterable[str]) -> ShortUrl:
    for key in keys:
        with transaction.atomic():
            try:
                return ShortUrl.objects.create(key=key, target_url=target_url)
            except Exception:  # noqa: S112 - which is what is wrong with it
                continue
    raise ShortUrl.KeySpaceExhausted(keys)


def not_saved(target_url: str, *, keys: Iterable[str]) -> ShortUrl:
    for key in keys:
        if not ShortUrl.objects.filter(key=key).exists():
            return ShortUrl(key=key, target_url=target_url)
    raise ShortUrl.KeySpaceExhausted(keys)


def deletes(target_url: str, *, keys: Iterable[str]) -> ShortUrl:
    key = next(iter(keys))
    with transaction.atomic():
        ShortUrl.objects.filter(key=key).erase()
        return ShortUrl.objects.create(key=key, target_url=target_url)


def created_is_not_looked_at(target_url: str, *, keys: Iterable[str]) -> ShortUrl:
    short_url, _ = ShortUrl.objects.get_or_create(
        key=next(iter(keys)), defaults={"target_url": target_url}
    )
    return short_url


def a_python_lock(target_url: str, *, keys: Iterable[str]) -> ShortUrl:
    with LOCK:
        for key in keys:
            if not ShortUrl.objects.filter(key=key).exists():
                return ShortUrl.objects.create(key=key, target_url=target_url)
    raise ShortUrl.KeySpaceExhausted(keys)


def none_when_exhausted(target_url: str, *, keys: Iterable[str]) -> ShortUrl | None:
    for key in keys:
        try:
            with transaction.atomic():
                return ShortUrl.objects.create(key=key, target_url=target_url)
        except IntegrityError:
            pass
    return None


def ignore_conflicts(target_url: str, *, keys: Iterable[str]) -> ShortUrl:
    for key in keys:
        ShortUrl.objects.bulk_create(
            [ShortUrl(key=key, target_url=target_url)], ignore_conflicts=True
        )
        return ShortUrl.objects.get(key=key)
    raise ShortUrl.KeySpaceExhausted(keys)


def another_exception(target_url: str, *, keys: Iterable[str]) -> ShortUrl:
    for key in keys:
        try:
            with transaction.atomic():
                return ShortUrl.objects.create(key=key, target_url=target_url)
        except IntegrityError:
            pass
    raise ValueError("no key is left")
