"""What people hand in for two keys in one call, and the judge refuses; see WORKSHOP.md."""

import threading

from django.db import OperationalError, transaction

from shorturl import operations
from shorturl.models import ShortUrl

LOCK = threading.Lock()


def no_transaction(first: str, second: str) -> tuple[ShortUrl, ShortUrl]:
    return operations.resolve(first), operations.resolve(second)


def a_python_lock(first: str, second: str) -> tuple[ShortUrl, ShortUrl]:
    with LOCK, transaction.atomic():
        return operations.resolve(first), operations.resolve(second)


def caught_inside(first: str, second: str) -> tuple[ShortUrl, ShortUrl]:
    with transaction.atomic():
        one = operations.resolve(first)
        try:
            return one, operations.resolve(second)
        except OperationalError:
            return one, operations.resolve(second)


def in_the_wrong_order(first: str, second: str) -> list[ShortUrl]:
    with transaction.atomic():
        return [operations.resolve(key) for key in sorted((first, second))]
