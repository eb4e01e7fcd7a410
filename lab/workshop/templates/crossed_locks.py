"""Fix the caller.

`resolve_both` resolves two keys in one transaction, so that both hits count or none. It returns the
short URLs in the order asked for. operations.resolve() is right, and is not to be changed: its
UPDATE locks the row until the caller's COMMIT.

As it stands, what happens when somebody asks for "a" and "b", and somebody else for "b" and "a"?
There is more than one way out: look for one in which nobody gets an error at all.

Two races judge it: two calls in opposite orders, and one call with a key that does not exist,
which must count nothing.
"""

from django.db import transaction

from shorturl import operations
from shorturl.models import ShortUrl


def resolve_both(first: str, second: str) -> tuple[ShortUrl, ShortUrl]:
    with transaction.atomic():
        return operations.resolve(first), operations.resolve(second)
