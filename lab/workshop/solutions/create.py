"""The database decides, and a savepoint keeps the caller's transaction usable."""

from collections.abc import Iterable

from django.db import IntegrityError, transaction

from shorturl.keys import is_collision
from shorturl.models import ShortUrl


def create(target_url: str, *, keys: Iterable[str]) -> ShortUrl:
    for key in keys:
        try:
            with transaction.atomic():
                return ShortUrl.objects.create(key=key, target_url=target_url)
        except IntegrityError as error:
            if not is_collision(error):
                raise
    raise ShortUrl.KeySpaceExhausted(keys)
