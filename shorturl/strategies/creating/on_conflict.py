from collections.abc import Iterable
from typing import Any

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.exceptions import KeySpaceExhausted
from shorturl.models import ShortUrl

VERDICT = "right"
SHOWS = "INSERT … ON CONFLICT DO NOTHING: one statement, no exception"

COLUMNS = [field.attname for field in ShortUrl._meta.concrete_fields]
COMMA = sql.SQL(", ")
NAMES = {
    "table": sql.Identifier(ShortUrl._meta.db_table),
    "columns": COMMA.join(map(sql.Identifier, COLUMNS)),
}
INSERT = sql.SQL("""
    INSERT INTO {table} ({given}) VALUES ({places})
    ON CONFLICT (key) DO NOTHING
    RETURNING {columns}
""")
COMPOSED: dict[tuple[str, ...], str] = {}  # by the given columns: composing takes a while


def create(target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl:
    """Insert, and let the database skip a key that is taken.

    What it does: inserts one key after the other; a taken key gives no row. It returns the short
    URL, or raises KeySpaceExhausted when every key is taken.

    SQL:
        INSERT INTO shorturl_shorturl (key, target_url, …) VALUES (…)
        ON CONFLICT (key) DO NOTHING RETURNING id, key, …

    Why nothing can go wrong: check and use are one statement. It waits for another session's
    uncommitted insert of the same key. A collision raises no error, so it does not abort a caller's
    transaction. Only a conflict on `key` is skipped; any other violation is raised. Two cases
    remain for the caller. Under REPEATABLE READ a key that was taken since the snapshot is a
    serialization failure. Two transactions that each insert the same two keys in opposite orders
    can deadlock, as with every INSERT.

    What it costs: one statement, and one more for each collision. A collision leaves no dead row
    and uses up one value of the id's sequence and few transaction ids (31 for 1,000 collisions).

    What your model needs: a unique constraint on the key alone. For a constraint with a condition,
    as with a soft delete, write ON CONFLICT (key) WHERE … with the same condition. Django's
    `default` and `auto_now_add` do not apply. So every other NOT NULL column needs a `db_default`,
    or a value from the caller: create(…, id=uuid4(), hits=0, created_at=now()).

    When to use it: by default. It bypasses save() and its signals; where those matter, use
    `savepoint`.
    """
    given = ("key", "target_url", *values)
    if given not in COMPOSED:
        places = COMMA.join([sql.Placeholder()] * len(given))
        insert = INSERT.format(**NAMES, given=COMMA.join(map(sql.Identifier, given)), places=places)
        connection.ensure_connection()  # it quotes the names
        COMPOSED[given] = insert.as_string(connection.connection)
    for key in keys:
        with connection.cursor() as cursor:
            cursor.execute(COMPOSED[given], [key, target_url, *values.values()])
            row = cursor.fetchone()
        if row is not None:
            return ShortUrl.from_db(connection.alias, COLUMNS, row)
    raise KeySpaceExhausted(keys)
