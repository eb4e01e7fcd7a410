import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

from django.db import connection

from shorturl.models import ShortUrl, VisitCount
from shorturl.visits.classification import Visit

# What a redirect needs. Each one more takes time; Django reads the others when they are asked for.
COLUMNS = ["id", "key", "target_url", "hits"]
LINKS, COUNTS, *NAMES = map(
    connection.ops.quote_name, [ShortUrl._meta.db_table, VisitCount._meta.db_table, *COLUMNS]
)
KIND = "referrer, browser, system, device, country, is_bot"
# In the order of keys and kinds, in which a roll-up adds to them too.
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
    """Count and record visits that arrived together: of one key here, of several in count().

    What it does: counts all visits as `combined` in `resolving` does, and adds them to the rows of
    this hour, one for each kind of visit, in one statement. It returns the short URL with the
    number of the last hit, and raises ShortUrl.DoesNotExist when none is live, or has so many uses
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
    Statements of one link take turns by its row, and all change rows of visits in the same order as
    a roll-up, so that the two cannot deadlock.

    What it costs: as `upsert`, once for many visits.

    When to use it: where many follow links at once, and something collects their visits.
    """
    visits = [visit, *others]
    with connection.cursor() as cursor:
        cursor.execute(ONE, [len(visits), key, len(visits), as_json({key: visits})])
        row = cursor.fetchone()
    if row is None:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r} with so many uses left.")
    return ShortUrl.from_db(connection.alias, COLUMNS, row)


def count(visits: Mapping[str, Sequence[Visit]]) -> dict[str, tuple[str, int]]:
    """Count and record visits of several keys by one statement that waits for no link.

    It returns the links that were counted, by key, and leaves out what count() of `combined` in
    `resolving` does. The SQL is the `locked` of that one in front of the `recorded` of record().
    """
    numbers = [len(of_key) for of_key in visits.values()]
    with connection.cursor() as cursor:
        cursor.execute(SEVERAL, [list(visits), numbers, as_json(visits)])
        return {key: (target_url, hits) for _, key, target_url, hits in cursor.fetchall()}


def as_json(visits: Mapping[str, Sequence[Visit]]) -> str:
    """Return the kinds of the visits as a JSON array: of each its key, its columns and its hits."""
    kinds = [
        f'{begun(visit)}, "key": {json.dumps(key)}, "hits": {hits}}}'
        for key, of_key in visits.items()
        for visit, hits in Counter(of_key).items()
    ]
    return f"[{','.join(kinds)}]"


@lru_cache(4_000)
def begun(visit: Visit) -> str:
    """Return the JSON object of a kind without its end, to which key and hits are added."""
    return json.dumps(visit._asdict()).removesuffix("}")
