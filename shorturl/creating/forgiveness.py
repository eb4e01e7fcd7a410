from collections.abc import Iterable
from typing import Any

from django.db import IntegrityError

from shorturl.keys import is_collision
from shorturl.models import ShortUrl


def create(target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl:
    """Insert, and ask for forgiveness when the key is taken.

    What it does: inserts one candidate key after the other until the database takes one. It
    returns the short URL, and raises ShortUrl.KeySpaceExhausted when it takes none.

    SQL:
        INSERT INTO shorturl_shorturl (key, target_url, …) VALUES (…) RETURNING id, …
        … once more for each key that is taken

    What goes wrong: inside a caller's atomic() the first collision aborts the whole transaction;
    PostgreSQL then refuses every statement until it ends, the retry among them, and Django says
    so with TransactionManagementError. Alone, in autocommit, nothing goes wrong: the unique
    constraint decides, and each INSERT is a transaction of its own.

    What it costs: one statement, one more for each collision; each collision leaves a dead row
    and a used transaction id behind.

    When to use it: do not; `savepoint` is two lines longer and right everywhere.
    """
    for key in keys:
        try:
            return ShortUrl.objects.create(key=key, target_url=target_url, **values)
        except IntegrityError as error:
            if not is_collision(error):
                raise
    raise ShortUrl.KeySpaceExhausted(keys)
