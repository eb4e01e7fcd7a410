from collections.abc import Iterable
from typing import Any

from django.db import IntegrityError, transaction

from shorturl.keys import is_collision
from shorturl.models import ShortUrl


def create(target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl:
    """Insert inside a savepoint, and ask for forgiveness when the key is taken.

    What it does: inserts one candidate key after the other, each in an atomic block of its own,
    until the database takes one. It returns the short URL, and raises ShortUrl.KeySpaceExhausted
    when it takes none.

    SQL, in autocommit:
        BEGIN
        INSERT INTO shorturl_shorturl (key, target_url, …) VALUES (…) RETURNING id, …
        COMMIT, or ROLLBACK and the next key

    SQL, inside a caller's atomic():
        SAVEPOINT …
        INSERT INTO shorturl_shorturl (key, target_url, …) VALUES (…) RETURNING id, …
        RELEASE SAVEPOINT …, or ROLLBACK TO SAVEPOINT … and the next key

    Why nothing can go wrong: the unique constraint decides who has the key, and a refused INSERT
    undoes only its own block, so the caller's transaction goes on.

    What it costs: three round trips; each collision leaves a dead row and a used transaction id.

    What your model needs: a unique constraint, with a condition or without, that is_collision()
    knows by its name. Django's defaults, and its ways to make a primary key, go on as ever.

    When to use it: whenever the ORM should do the insert, with its signals and its fields.
    """
    for key in keys:
        try:
            with transaction.atomic():
                return ShortUrl.objects.create(key=key, target_url=target_url, **values)
        except IntegrityError as error:
            if not is_collision(error):
                raise
    raise ShortUrl.KeySpaceExhausted(keys)
