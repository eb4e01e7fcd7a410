"""The statement that counts looks at the limit, and what was looked at before decides nothing."""

from django.db.models import F

from shorturl.models import ShortUrl


def resolve(key: str) -> ShortUrl:
    short_url = ShortUrl.objects.live().filter(key=key)
    if not short_url.update(hits=F("hits") + 1):
        raise ShortUrl.DoesNotExist(key)
    return ShortUrl.objects.get(key=key)
