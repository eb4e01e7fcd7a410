"""Write a resolve that holds.

`resolve` counts one hit and returns the short URL; it raises ShortUrl.DoesNotExist when there is
none.

As it stands it reads, adds one, and writes. Which statement is out of date when it is sent, and
which columns does it write?

Two races judge it: two people follow the same link, and one follows it while the other edits its
target.
"""

from shorturl.models import ShortUrl


def resolve(key: str) -> ShortUrl:
    short_url = ShortUrl.objects.get(key=key)
    short_url.hits += 1
    short_url.save()
    return short_url
