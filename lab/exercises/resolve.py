"""Write a correct `resolve`: `pytest lab/exercises/tests/resolve.py` tests it.

`resolve` counts one hit and returns the short URL. It raises ShortUrl.DoesNotExist for a key that
leads nowhere: one that is unknown, deleted, expired or used up. live() leaves all of these out.

Calls at once end as calls one after another do. It also works in a caller's transaction, or
refuses it as atomic(durable=True) does.

The function below reads, adds one, and writes. Which of its statements can use an old value? Which
columns does it write? Which statement should check how many uses are left?
"""

from shorturl.models import ShortUrl


def resolve(key: str) -> ShortUrl:
    short_url = ShortUrl.objects.live().get(key=key)
    short_url.hits += 1
    short_url.save()
    return short_url
