"""The strategy that the service runs: it counts hits of several links, and of bots, too."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import RecentVisits, ShortUrl, Visit

VERDICT = "right"
SHOWS = "one statement for all visits that wait, and a row for each key, added up later"

# Each further column takes time; Django reads it on first access.
COLUMNS = ["id", "key", "target_url", "hits", "forward_query"]
NAMES = {
    "links": sql.Identifier(ShortUrl._meta.db_table),
    "recent": sql.Identifier(RecentVisits._meta.db_table),
    "columns": sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
}
# `uses` is NULL if a bot is among the visits: then a link with a limit is not counted.
COUNT_KEY = sql.SQL("""
    WITH followed AS (
        UPDATE {links} SET hits = hits + %s
        WHERE key = %s AND deleted_at IS NULL
            AND (expires_at IS NULL OR expires_at > statement_timestamp())
            AND (max_hits IS NULL OR hits <= max_hits - %s)
        RETURNING {columns}, %s::jsonb AS kinds
    ), recorded AS (
        INSERT INTO {recent} (key, starts_at, kinds)
        SELECT key, date_trunc('hour', statement_timestamp(), 'UTC'), kinds FROM followed
        WHERE kinds IS NOT NULL
    )
    SELECT {columns} FROM followed
""").format(**NAMES)
# Counts each key that COUNT_KEY would count, unless its row is locked. SKIP LOCKED waits for no
# row, so two of these statements cannot deadlock. The UPDATE changes only rows that were locked.
COUNT_KEYS = sql.SQL("""
    WITH locked AS (
        SELECT id AS locked_id FROM {links}
        WHERE key = ANY (%s::text[]) AND deleted_at IS NULL
            AND (expires_at IS NULL OR expires_at > statement_timestamp())
            AND (max_hits IS NULL OR hits <= max_hits - (%s::jsonb ->> key)::bigint)
        ORDER BY key FOR NO KEY UPDATE SKIP LOCKED
    ), followed AS (
        UPDATE {links} SET hits = hits + (%s::jsonb ->> key)::bigint
        WHERE id = ANY (ARRAY(SELECT locked_id FROM locked))
        RETURNING {columns}, %s::jsonb -> key AS kinds
    ), recorded AS (
        INSERT INTO {recent} (key, starts_at, kinds)
        SELECT key, date_trunc('hour', statement_timestamp(), 'UTC'), kinds FROM followed
        WHERE kinds IS NOT NULL
    )
    SELECT key, target_url, forward_query FROM followed
""").format(**NAMES)


def record(key: str, visit: Visit, *, keep: bool = True) -> ShortUrl:
    """Record a visit by the statement that records several to a link.

    The visit is inserted as JSON, in a row of its own. Nothing is recorded for a bot's visit to a
    link with a limit. Without `keep` only the hit is counted.

    Why nothing can go wrong: one statement adds as many visits as hits, or nothing, as in `upsert`.
    Statements of one link wait for its row lock, and the INSERT conflicts with no other row. The
    roll-up deletes and adds in one statement, so each visit is counted once.

    What it costs: one round trip, and two written rows for many visits. Until the next roll-up
    there is a row for each statement, and a link's page reads all of them.

    When to use it: where many visits arrive at the same time, a caller combines them, and a timer
    runs the roll-up.
    """
    links = ShortUrl.objects.raw(COUNT_KEY, count_key_params(key, [visit], keep=keep))
    for link in links:
        return link
    raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r} with a use left.")


def count_key_params(key: str, visits: Sequence[Visit], *, keep: bool = True) -> list[Any]:
    """Return the parameters of COUNT_KEY, which counts all visits to a key or none of them."""
    return [len(visits), key, count_uses(visits), json.dumps(visits) if keep else None]


def count_keys_params(visits: Mapping[str, Sequence[Visit]], *, keep: bool = True) -> list[Any]:
    """Return the parameters of COUNT_KEYS, for the visits to several keys."""
    uses = {key: count_uses(visits[key]) for key in visits}
    numbers = {key: len(visits[key]) for key in visits}
    kinds = json.dumps(visits) if keep else None
    return [list(visits), json.dumps(uses), json.dumps(numbers), kinds]


def count_uses(visits: Sequence[Visit]) -> int | None:
    """Return how many uses the visits take of a link with a limit.

    None stands for visits of bots, which are not redirected by such a link.
    """
    return None if any(visit.is_bot for visit in visits) else len(visits)
