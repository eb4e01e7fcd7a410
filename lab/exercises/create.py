"""Write a correct `create`: `pytest lab/exercises/tests/create.py` tests it.

`create` tries the candidate keys `keys`, any iterable that ends, in turn and returns the new short
URL. It raises KeySpaceExhausted when all of them are taken. A deleted link keeps its key.
Several links may have one target.

Calls at once end as calls one after another do. It also works in a caller's transaction, or
refuses it as atomic(durable=True) does.

The function below checks a key and then inserts it. What can happen between the two?
"""

from collections.abc import Iterable

from shorturl.exceptions import KeySpaceExhausted
from shorturl.models import ShortUrl


def create(target_url: str, *, keys: Iterable[str]) -> ShortUrl:
    for key in keys:
        if not ShortUrl.objects.filter(key=key).exists():
            return ShortUrl.objects.create(key=key, target_url=target_url)
    raise KeySpaceExhausted(keys)
