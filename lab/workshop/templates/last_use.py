"""Write a resolve that holds for a link that may be followed so often, and not once more.

It returns the short URL with this hit counted, and raises ShortUrl.DoesNotExist for a key that
leads nowhere: unknown, or used up. `max_hits` is how often it may be followed, or None.

As it stands the database adds, so that no hit is lost, and the last use is still sold twice. A
CHECK of the table refuses what is beyond the limit, and somebody gets that error.

Two races judge it: two that follow a link with one use left, and one that follows it while its
limit is raised.
"""

from django.db.models import F

from shorturl.models import ShortUrl


def resolve(key: str) -> ShortUrl:
    short_url = ShortUrl.objects.live().get(key=key)
    short_url.hits = F("hits") + 1
    short_url.save(update_fields=["hits"])
    return short_url
