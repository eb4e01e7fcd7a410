from collections.abc import Iterable
from typing import Any

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import ShortUrl

COLUMNS = [field.attname for field in ShortUrl._meta.concrete_fields]
TABLE, COMMA = sql.Identifier(ShortUrl._meta.db_table), sql.SQL(", ")
INSERT = sql.SQL("""
    INSERT INTO {} ({}) VALUES ({})
    ON CONFLICT (key) DO NOTHING
    RETURNING {}
""")


def create(target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl:
    """Insert, and let the database skip the key when it is taken.

    What it does: inserts one candidate key after the other; a taken key inserts nothing and
    returns no row. It returns the short URL, and raises ShortUrl.KeySpaceExhausted when every
    key was taken.

    SQL:
        INSERT INTO shorturl_shorturl (key, target_url, …) VALUES (…)
        ON CONFLICT (key) DO NOTHING RETURNING id, key, …

    Why nothing can go wrong: check and use are one statement. It waits for another session's
    uncommitted insert of the same key and then says truly whether the row went in. A collision
    raises nothing, so it does not abort a caller's transaction. Only a conflict on `key` is
    skipped; any other violation is an error as ever. Two things remain the caller's: under
    REPEATABLE READ a key that was taken since the snapshot is a serialization failure, and two
    transactions that each insert the same two keys in opposite orders can deadlock, as with every
    way to insert.

    What it costs: one statement, one more for each collision, which leaves no dead row and next
    to no transaction ids (31 for 1,000 collisions), only a value of the id's sequence.

    What your model needs: a unique constraint on the key alone; where it has a condition, as with a
    soft delete, write ON CONFLICT (key) WHERE …, as the condition says. Django's `default` and
    `auto_now_add` are not asked: every other column that is NOT NULL needs a `db_default`, or to be
    handed in, as create(…, id=uuid4(), hits=0, created_at=now()).

    When to use it: by default. It bypasses save() and its signals; where those matter, use
    `savepoint`.
    """
    columns = ["key", "target_url", *values]
    names, places = (COMMA.join(map(kind, columns)) for kind in (sql.Identifier, sql.Placeholder))
    insert = INSERT.format(TABLE, names, places, COMMA.join(map(sql.Identifier, COLUMNS)))
    for key in keys:
        with connection.cursor() as cursor:
            cursor.execute(insert, {"key": key, "target_url": target_url, **values})
            row = cursor.fetchone()
        if row is not None:
            return ShortUrl.from_db(connection.alias, COLUMNS, row)
    raise ShortUrl.KeySpaceExhausted(keys)
