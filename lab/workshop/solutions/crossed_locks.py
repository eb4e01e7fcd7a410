"""Everybody takes the locks in the same order, so that no circle can close."""

from django.db import transaction

from shorturl import operations
from shorturl.models import ShortUrl


def resolve_both(first: str, second: str) -> tuple[ShortUrl, ShortUrl]:
    with transaction.atomic():
        found = {key: operations.resolve(key) for key in sorted((first, second))}
    return found[first], found[second]
