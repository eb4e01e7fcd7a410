"""The database adds, and only the counter is written."""

from django.db.models import F

from shorturl.models import ShortUrl


def resolve(key: str) -> ShortUrl:
    if not ShortUrl.objects.filter(key=key).update(hits=F("hits") + 1):
        raise ShortUrl.DoesNotExist(f"There is no short URL {key!r}.")
    return ShortUrl.objects.get(key=key)
