"""Many links by one statement, which locks the new links in the order of their keys."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.backends.postgresql.psycopg_any import sql

from shorturl import bans
from shorturl.exceptions import KeySpaceExhausted, KeyTaken, LinksRefused, TargetBanned
from shorturl.links import keys
from shorturl.links.validators import shortened
from shorturl.models import ShortUrl

MAX_LINKS = 1_000  # of one statement, which locks their keys for some 20 ms
INSERT = sql.SQL("""
    INSERT INTO {table} ({given})
    SELECT {given} FROM json_populate_recordset(NULL::{table}, %s) ORDER BY key COLLATE "C"
    ON CONFLICT (key) DO NOTHING RETURNING *
""")


def insert(rows: Sequence[Mapping[str, Any]]) -> dict[str, ShortUrl]:
    """Insert the rows whose keys are free, and return the new links by key.

    All rows have the same columns. Two such statements wait for each other's keys in the same
    order, so they cannot deadlock.
    """
    statement = INSERT.format(
        table=sql.Identifier(ShortUrl._meta.db_table),
        given=sql.SQL(", ").join(map(sql.Identifier, rows[0])),
    )
    links = ShortUrl.objects.raw(statement, [json.dumps(rows, default=str)])  # str: times
    return {link.key: link for link in links}


def create_all(rows: Sequence[Mapping[str, Any]]) -> list[ShortUrl]:
    """Return a new link for each row, or create none. A row without a key gets a random one.

    If a drawn key is taken, all rows are rolled back and inserted again: two statements in one
    transaction could deadlock. Raises LinksRefused for banned targets and for custom keys that are
    taken, and KeySpaceExhausted.
    """
    candidates = [iter([row["key"]] if row["key"] else keys.candidates()) for row in rows]
    chosen = [next(keys_of_row) for keys_of_row in candidates]  # the key that each row tries next
    while "" not in chosen:  # "" stands for a row whose candidates are all taken
        with transaction.atomic():
            refuse_banned(rows)
            new = insert([{**row, "key": key} for row, key in zip(rows, chosen, strict=True)])
            if len(new) == len(rows):
                return [new[key] for key in chosen]
            transaction.set_rollback(True)
        # Rows without a key first: a random key gives way to an equal custom one.
        for index in sorted(range(len(rows)), key=lambda index: bool(rows[index]["key"])):
            is_repeated = chosen.count(chosen[index]) > 1
            if is_repeated or chosen[index] not in new:
                chosen[index] = next(candidates[index], "")
    taken = {n: row["key"] for n, row in enumerate(rows) if row["key"] and not chosen[n]}
    if not taken:
        raise KeySpaceExhausted(keys.candidates())
    deleted = find_deleted(taken.values())
    raise LinksRefused({n: KeyTaken(key, deleted=key in deleted) for n, key in taken.items()})


def refuse_banned(rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise LinksRefused with each row whose target is in a banned domain."""
    targets = [row["target_url"] for row in rows]
    banned = bans.banned_targets(set(targets))
    errors = {
        index: TargetBanned(shortened(target), banned[target])
        for index, target in enumerate(targets)
        if target in banned
    }
    if errors:
        raise LinksRefused(errors)


def find_deleted(taken: Iterable[str]) -> set[str]:
    """Return the keys of deleted links among keys that are taken."""
    links = ShortUrl.objects.filter(key__in=list(taken), deleted_at__isnull=False)
    return set(links.values_list("key", flat=True))
