import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

from django.db import connection

from shorturl.models import ShortUrl, VisitCount
from shorturl.visits.classification import Visit

# The columns that a redirect needs. Each further one takes time; Django reads it on first access.
COLUMNS = ["id", "key", "target_url", "hits"]
LINKS, COUNTS, *NAMES = map(
    connection.ops.quote_name, [ShortUrl._meta.db_table, VisitCount._meta.db_table, *COLUMNS]
)
KIND = "referrer, browser, system, device, country, is_bot"
# It locks the rows in the order of keys and kinds, as a roll-up does.
RECORDED = f"""
    INSERT INTO {COUNTS} AS counts (key, starts_at, unit, {KIND}, hits)
    SELECT key, date_trunc('hour', statement_timestamp(), 'UTC'), 'h', {KIND}, kinds.hits
    FROM json_to_recordset(%s) AS kinds (
        key text, referrer text, browser text, system text, device text, country text,
        is_bot boolean, hits bigint
    ) JOIN followed USING (key)
    ORDER BY key, {KIND}
    ON CONFLICT (key, starts_at, unit, {KIND})
    DO UPDATE SET hits = counts.hits + excluded.hits
"""  # noqa: S608
ONE = f"""
    WITH followed AS (
        UPDATE {LINKS} SET hits = hits + %s
        WHERE key = %s AND deleted_at IS NULL
            AND (expires_at IS NULL OR expires_at > statement_timestamp())
            AND (max_hits IS NULL OR hits <= max_hits - %s)
        RETURNING {", ".join(NAMES)}
    ), recorded AS ({RECORDED})
    SELECT {", ".join(NAMES)} FROM followed
"""  # noqa: S608
SEVERAL = f"""
    WITH wanted AS (
        SELECT * FROM unnest(%s::text[], %s::bigint[]) AS wanted (key, number)
    ), locked AS (
        SELECT id AS locked_id, number FROM {LINKS} JOIN wanted USING (key)
        WHERE deleted_at IS NULL
            AND (expires_at IS NULL OR expires_at > statement_timestamp())
            AND (max_hits IS NULL OR hits <= max_hits - number)
        ORDER BY key FOR NO KEY UPDATE OF {LINKS} SKIP LOCKED
    ), followed AS (
        UPDATE {LINKS} SET hits = hits + number FROM locked WHERE id = locked_id
        RETURNING {", ".join(NAMES)}
    ), recorded AS ({RECORDED})
    SELECT {", ".join(NAMES)} FROM followed
"""  # noqa: S608


def record(key: str, visit: Visit, *others: Visit) -> ShortUrl:
    """Count and record several visits to one key in one statement; count() takes several keys.

    What it does: counts all visits as `combined` in `resolving` does, and adds them to the rows of
    this hour, one for each kind of visit. It returns the short URL with the number of the last hit.
    It raises ShortUrl.DoesNotExist when no live one has the key, or when fewer uses than visits are
    left.

    SQL:
        WITH followed AS (
            UPDATE shorturl_shorturl SET hits = hits + 1
            WHERE key = … AND deleted_at IS NULL
                AND (expires_at IS NULL OR expires_at > statement_timestamp())
                AND (max_hits IS NULL OR hits <= max_hits - 1)
            RETURNING id, key, target_url, hits
        ), recorded AS (
            INSERT INTO shorturl_visitcount AS counts
            (key, starts_at, unit, referrer, browser, system, device, country, is_bot, hits)
            SELECT key, date_trunc('hour', statement_timestamp(), 'UTC'), 'h', …, kinds.hits
            FROM json_to_recordset(…) AS kinds (…) JOIN followed USING (key)
            ORDER BY key, referrer, browser, system, device, country, is_bot
            ON CONFLICT
            (key, starts_at, unit, referrer, browser, system, device, country, is_bot)
            DO UPDATE SET hits = counts.hits + excluded.hits
        )
        SELECT id, key, target_url, hits FROM followed

    Why nothing can go wrong: one statement adds as many visits as hits, or nothing, as in `upsert`.
    Statements of one link wait for its row lock. All of them lock the rows of visits in the same
    order as a roll-up, so the two cannot deadlock.

    What it costs: as `upsert`, once for many visits.

    When to use it: where many visits arrive at the same time, and a caller combines them.
    """
    visits = [visit, *others]
    hits = len(visits)
    with connection.cursor() as cursor:
        cursor.execute(ONE, [hits, key, hits, as_json({key: visits})])
        row = cursor.fetchone()
    if row is None:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r} with {hits} uses left.")
    return ShortUrl.from_db(connection.alias, COLUMNS, row)


def count(visits: Mapping[str, Sequence[Visit]]) -> dict[str, tuple[str, int]]:
    """Count and record visits to several keys in one statement, which waits for no link.

    It returns the same and leaves out the same keys as count() of `combined` in `resolving`. The
    SQL has `wanted` and `locked` of that count(), and `recorded` of record().
    """
    numbers = [len(of_key) for of_key in visits.values()]
    with connection.cursor() as cursor:
        cursor.execute(SEVERAL, [list(visits), numbers, as_json(visits)])
        return {key: (target_url, hits) for _, key, target_url, hits in cursor.fetchall()}


def as_json(visits: Mapping[str, Sequence[Visit]]) -> str:
    """Return a JSON array of the kinds of visits, each with its key, columns and hits."""
    hits = Counter((key, visit) for key, of_key in visits.items() for visit in of_key)
    kinds = (
        f'{begun(visit)}, "key": {json.dumps(key)}, "hits": {number}}}'
        for (key, visit), number in hits.items()
    )
    return f"[{','.join(kinds)}]"


@lru_cache(4_000)
def begun(visit: Visit) -> str:
    """Return the JSON object of a kind without its closing brace; key and hits follow."""
    return json.dumps(visit._asdict()).removesuffix("}")
