from collections.abc import Iterable
from typing import Any

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql
from sqids import Sqids

from shorturl.keys import ALPHABET, ATTEMPTS_PER_LENGTH, is_reserved
from shorturl.models import ShortUrl

TABLE, COMMA = sql.Identifier(ShortUrl._meta.db_table), sql.SQL(", ")
NEXT_ID = "SELECT nextval(pg_get_serial_sequence(%s, 'id'))"
INSERT = sql.SQL("""
    INSERT INTO {} ({}) VALUES ({})
    ON CONFLICT (key) DO NOTHING
    RETURNING *
""")
SHUFFLED = Sqids(alphabet=ALPHABET, min_length=7)


def create(target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl:
    """Draw the next number of a sequence and write it as a key that does not look like one.

    What it does: takes the next id and encodes it with Sqids, a one-to-one mapping of numbers to
    short strings; the candidate keys are not used. It returns the short URL, and raises
    ShortUrl.KeySpaceExhausted when custom keys stood in the way ten times in a row.

    SQL:
        SELECT nextval(pg_get_serial_sequence('shorturl_shorturl', 'id'))
        INSERT INTO shorturl_shorturl (id, key, target_url, …) VALUES (…)
        ON CONFLICT (key) DO NOTHING RETURNING *

    Why nothing can go wrong: a sequence gives no value twice, to whichever process, committed or
    not, and different numbers make different keys. Only a key that was made in another way, a
    custom one or one from before, can already stand where a number leads, and ON CONFLICT then
    moves on to the next number.

    What it costs: two statements, however full the key space is. The keys have seven characters
    or more, whatever length the service is set to. What it gives up: the keys are
    shuffled, not secret. Whoever knows the alphabet counts your links and visits their
    neighbours, and whoever sees two keys knows how many were made between them.

    What your model needs: an integer with a sequence for its primary key, and what `on_conflict`
    needs.

    When to use it: where the links are public anyway and no create may ever try twice.
    """
    columns = ["id", "key", "target_url", *values]
    names, places = (COMMA.join(map(kind, columns)) for kind in (sql.Identifier, sql.Placeholder))
    insert = INSERT.format(TABLE, names, places)
    tried = []
    for _ in range(ATTEMPTS_PER_LENGTH):
        with connection.cursor() as cursor:
            cursor.execute(NEXT_ID, [ShortUrl._meta.db_table])
            (number,) = cursor.fetchone()
        key = SHUFFLED.encode([number])
        if not is_reserved(key):
            row = {"id": number, "key": key, "target_url": target_url, **values}
            for short_url in ShortUrl.objects.raw(insert, row):
                return short_url
        tried.append(key)
    raise ShortUrl.KeySpaceExhausted(tried)
