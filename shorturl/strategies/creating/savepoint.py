from collections.abc import Iterable
from typing import Any

from django.db import IntegrityError, transaction

from shorturl.exceptions import KeySpaceExhausted
from shorturl.links.keys import is_collision
from shorturl.models import ShortUrl

VERDICT = "right"
STEP = "✅ 2"
SHOWS = "retry on IntegrityError, each attempt in its own atomic block"


def create(target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl:
    """Insert inside a savepoint, and try the next key when the database refuses this one.

    SQL, in autocommit; inside a caller's atomic() the first and the last line are a SAVEPOINT:
        BEGIN
        INSERT INTO shorturl_shorturl (key, target_url, …) VALUES (…) RETURNING id, …
        COMMIT, or ROLLBACK and the next key

    Why nothing can go wrong: the unique constraint decides which process gets the key. A refused
    INSERT rolls back only its own block, so the caller's transaction stays usable.

    What it costs: three round trips. Each collision leaves a dead row behind and uses up a
    transaction id.

    What your model needs: a unique constraint, with or without a condition, whose name
    is_collision() knows. Django's defaults and primary keys work as usual.

    When to use it: whenever the ORM should do the insert, with its signals and its fields.
    """
    for key in keys:
        try:
            with transaction.atomic():
                return ShortUrl.objects.create(key=key, target_url=target_url, **values)
        except IntegrityError as error:
            if not is_collision(error):
                raise
    raise KeySpaceExhausted(keys)
