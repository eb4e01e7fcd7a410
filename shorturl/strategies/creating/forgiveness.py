from collections.abc import Iterable
from typing import Any

from django.db import IntegrityError

from shorturl.exceptions import KeySpaceExhausted
from shorturl.links.keys import is_collision
from shorturl.models import ShortUrl

VERDICT = "right, unless a transaction is open"
STEP = "✅ 2"
SHOWS = "retry on IntegrityError, without a savepoint"


def create(target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl:
    """Insert, and try the next key when the database refuses this one.

    SQL:
        INSERT INTO shorturl_shorturl (key, target_url, …) VALUES (…) RETURNING id, …
        … once more for each key that is taken

    What goes wrong: inside a caller's atomic() the first collision aborts the whole transaction.
    PostgreSQL then refuses every statement, including the retry, and Django raises
    TransactionManagementError. In autocommit nothing goes wrong: the unique constraint decides, and
    each INSERT is a separate transaction.

    What it costs: one statement, and one more for each collision, which leaves a dead row behind
    and uses up a transaction id. Use `savepoint`, which is two lines longer and right everywhere.
    """
    for key in keys:
        try:
            return ShortUrl.objects.create(key=key, target_url=target_url, **values)
        except IntegrityError as error:
            if not is_collision(error):
                raise
    raise KeySpaceExhausted(keys)
