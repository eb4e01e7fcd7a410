"""Many short URLs at once: one statement, whose rows are locked in the order of their keys."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql

from shorturl import keys
from shorturl.exceptions import KeySpaceExhausted, KeyTaken, LeftOut, ShortUrlError
from shorturl.models import ShortUrl

# Entries of one request: some 20 ms of one statement, and of locks on the keys that it takes.
BULK_MAX = 1_000

COLUMNS = [field.attname for field in ShortUrl._meta.concrete_fields]
INSERT = sql.SQL("""
    INSERT INTO {table} ({given})
    SELECT {given} FROM json_populate_recordset(NULL::{table}, %s) ORDER BY key COLLATE "C"
    ON CONFLICT (key) DO NOTHING
    RETURNING {columns}
""")


class Wanted(NamedTuple):
    """What makes a short URL: without a key, a random one is drawn.

    `values` are its other columns by name, the same names for all that are wanted together.
    """

    target_url: str
    key: str | None = None
    values: Mapping[str, Any] = {}


def insert(rows: Sequence[Mapping[str, Any]]) -> dict[str, ShortUrl]:
    """Insert the rows whose keys are free, and return the new short URLs by key.

    Every row has the same columns. It is one statement, which waits
    for another session's uncommitted insert of a key and returns only what it has inserted itself:
    nobody else's row is ever taken for one's own. The rows go in in the order of their keys, so
    that two inserts of the same keys, in whatever order they were given, cannot deadlock.
    """
    if not rows:
        return {}
    statement = INSERT.format(
        table=sql.Identifier(ShortUrl._meta.db_table),
        given=sql.SQL(", ").join(map(sql.Identifier, rows[0])),
        columns=sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [json.dumps(rows, default=str)])
        links = [ShortUrl.from_db(connection.alias, COLUMNS, each) for each in cursor.fetchall()]
    return {link.key: link for link in links}


def create_many(
    wanted: Sequence[Wanted],
    *,
    all_or_nothing: bool,
    draw: Callable[[], Iterable[str]] = keys.candidates,
) -> list[ShortUrl | ShortUrlError]:
    """Create the short URLs that are wanted; return for each the link, or why there is none.

    `draw` returns the random candidate keys of one entry. An entry gets KeyTaken for a custom key
    that is or was in use, by somebody else or by an entry before it, and KeySpaceExhausted when no
    random key was free. With `all_or_nothing` one such entry is enough that nothing is made, and
    the others get LeftOut. Safe inside atomic().

    When a drawn key is taken, what was inserted is rolled back, and all is inserted again, with
    another key in its place: to insert only that one, while the first ones are locked, would be to
    lock in another order.
    """
    planned = [[each.key] if each.key else draw() for each in wanted]
    candidates = [iter(each) for each in planned]
    tried = {number: next(each) for number, each in enumerate(candidates)}
    refused: dict[int, ShortUrlError] = {}
    while True:  # ends: each round but the last takes a candidate, and their number is bounded
        entry_of: dict[str, int] = {}
        for number in sorted(tried, key=lambda number: wanted[number].key is None):
            entry_of.setdefault(tried[number], number)  # whoever has chosen a key before who draws
        rows = [row(wanted[number], key) for key, number in entry_of.items()]
        with transaction.atomic():
            made = {entry_of[key]: link for key, link in insert(rows).items()}
            following = {n: next(candidates[n], None) for n in tried.keys() - made.keys()}
            gives_up = all_or_nothing and None in following.values()
            goes_on = not gives_up and any(following.values())
            if gives_up or goes_on:
                transaction.set_rollback(True)
        for number, key in following.items():
            if key:
                tried[number] = key
            else:
                refused[number] = reason(wanted[number], planned[number])
                del tried[number]
        if gives_up:
            return [refused.get(number, LeftOut()) for number in range(len(wanted))]
        if not goes_on:
            return [refused.get(number) or made[number] for number in range(len(wanted))]


def row(wanted: Wanted, key: str) -> dict[str, Any]:
    """Return the columns of a short URL with this key."""
    return {"key": key, "target_url": wanted.target_url, **wanted.values}


def reason(wanted: Wanted, candidates: Iterable[str]) -> ShortUrlError:
    """Return why none of the candidate keys became a short URL."""
    return KeyTaken(wanted.key) if wanted.key else KeySpaceExhausted(candidates)
