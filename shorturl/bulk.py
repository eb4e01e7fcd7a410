"""Bulk creates: one statement, which locks the new short URLs in the order of their keys."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.exceptions import KeySpaceExhausted, KeyTaken, LeftOut, ShortUrlError
from shorturl.links import keys
from shorturl.models import ShortUrl

# Entries of one request. The statement locks their keys for some 20 ms.
BULK_MAX = 1_000

COLUMNS = [field.attname for field in ShortUrl._meta.concrete_fields]
INSERT = sql.SQL("""
    INSERT INTO {table} ({given})
    SELECT {given} FROM json_populate_recordset(NULL::{table}, %s) ORDER BY key COLLATE "C"
    ON CONFLICT (key) DO NOTHING
    RETURNING {columns}
""")


class Wanted(NamedTuple):
    """An entry of a bulk create."""

    target_url: str
    key: str | None = None  # None: a random one is drawn
    values: Mapping[str, Any] = {}  # other columns, of the same names for all entries


def insert(rows: Sequence[Mapping[str, Any]]) -> dict[str, ShortUrl]:
    """Insert the rows whose keys are free, and return the new short URLs by key.

    Every row has the same columns. The statement waits for another session's uncommitted insert of
    a key. It inserts the rows in the order of their keys, so two of them cannot deadlock.
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
    """Create the wanted short URLs; return for each entry the link, or why there is none.

    An entry gets KeyTaken if its custom key is or was in use or belongs to an earlier entry, and
    KeySpaceExhausted if no random key was free. With `all_or_nothing` one such entry prevents all
    creates, and the other entries get LeftOut. Safe inside atomic().

    When a drawn key is taken, everything is rolled back, and all rows are inserted again with
    another key for that entry. Inserting only this one row, while the others are locked, would lock
    keys in a different order and could deadlock.
    """
    planned = [[each.key] if each.key else draw() for each in wanted]
    candidates = [iter(each) for each in planned]
    tried = {number: next(each) for number, each in enumerate(candidates)}
    refused: dict[int, ShortUrlError] = {}
    while True:  # ends, because each round but the last uses up one of finitely many candidates
        entry_of: dict[str, int] = {}
        for number in sorted(tried, key=lambda number: wanted[number].key is None):
            entry_of.setdefault(tried[number], number)  # custom keys before random ones
        rows = [
            {"key": key, "target_url": wanted[number].target_url, **wanted[number].values}
            for key, number in entry_of.items()
        ]
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
                custom = wanted[number].key
                refused[number] = KeyTaken(custom) if custom else KeySpaceExhausted(planned[number])
                del tried[number]
        if gives_up:
            return [refused.get(number, LeftOut()) for number in range(len(wanted))]
        if not goes_on:
            return [refused.get(number) or made[number] for number in range(len(wanted))]
