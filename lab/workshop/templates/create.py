"""Write a create that holds.

`keys` are the candidate keys, to be tried in turn. `create` returns the new short URL, and raises
ShortUrl.KeySpaceExhausted(keys) when all of them are somebody's already. Any error but a taken key
is the caller's to know.

As it stands it looks before it leaps. What happens between the look and the leap?

Three races judge it: one create alone, two that draw the same key first, and the same inside the
caller's transaction, which has to go on after a collision.
"""

from collections.abc import Iterable

from shorturl.models import ShortUrl


def create(target_url: str, *, keys: Iterable[str]) -> ShortUrl:
    for key in keys:
        if not ShortUrl.objects.filter(key=key).exists():
            return ShortUrl.objects.create(key=key, target_url=target_url)
    raise ShortUrl.KeySpaceExhausted(keys)
