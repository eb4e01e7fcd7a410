import json
import os
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from django.db import connection

from shorturl.models import ShortUrl, VisitCount
from shorturl.resolving.combined import (
    COLUMNS,
    Batches,
    Outcome,
    Row,
    count_with_others,
    returned,
)
from shorturl.visits import Visit

LINKS, COUNTS, *NAMES = map(
    connection.ops.quote_name, [ShortUrl._meta.db_table, VisitCount._meta.db_table, *COLUMNS]
)
KIND = "referrer, browser, system, device, country, is_bot"
COUNT = f"""
    WITH followed AS (
        UPDATE {LINKS} SET hits = hits + {{hits}}
        WHERE key = %s AND deleted_at IS NULL
            AND (expires_at IS NULL OR expires_at > statement_timestamp())
            AND (max_hits IS NULL OR hits <= max_hits - {{hits}})
        RETURNING {", ".join(NAMES)}
    ), recorded AS (
        INSERT INTO {COUNTS} AS counts (key, starts_at, unit, {KIND}, hits)
        SELECT followed.key, date_trunc('hour', statement_timestamp(), 'UTC'), 'h', kinds.*
        FROM followed, {{kinds}}
        ORDER BY {KIND}
        ON CONFLICT (key, starts_at, unit, {KIND})
        DO UPDATE SET hits = counts.hits + excluded.hits
    )
    SELECT {", ".join(NAMES)} FROM followed
"""  # noqa: S608
# Each value that is sent takes time: of one visit, as most batches have, they are few enough.
ONE = COUNT.format(
    hits="1", kinds=f"(VALUES (%s, %s, %s, %s, %s, %s::boolean, 1)) AS kinds ({KIND}, hits)"
)
SEVERAL = COUNT.format(
    hits="%s",
    kinds="""json_to_recordset(%s) AS kinds (
            referrer text, browser text, system text, device text, country text, is_bot boolean,
            hits bigint)""",
)

SHARED = Batches()
os.register_at_fork(after_in_child=SHARED.__init__)  # type: ignore[misc]


def record(key: str, visit: Visit, *, shared: Batches = SHARED) -> ShortUrl:
    """Count the hits that arrive while a statement is under way with the next one.

    What it does: forms batches of hits as `combined` in `resolving` does, whose code it uses, and
    records the visits of a batch in the statement that counts it: one row for each kind that is
    among them. It returns the short URL, and raises ShortUrl.DoesNotExist when none is live, and
    ShortUrl.Contended when the statement before its own does not end within half a second. Inside a
    caller's transaction nothing is combined.

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
            SELECT followed.key, date_trunc('hour', statement_timestamp(), 'UTC'), 'h', kinds.*
            FROM followed, (VALUES (…, 1)) AS kinds (…, hits)
            ORDER BY referrer, browser, system, device, country, is_bot
            ON CONFLICT
            (key, starts_at, unit, referrer, browser, system, device, country, is_bot)
            DO UPDATE SET hits = counts.hits + excluded.hits
        )
        SELECT id, key, target_url, hits FROM followed

    or + 2 and - 2, + 3 and - 3, …, with the kinds in the batch, and how many hits each has, as rows
    of json_to_recordset(…).

    Why nothing can go wrong: what holds for `combined` in `resolving`, and for `upsert`: one
    statement adds as many visits as hits, or nothing, and nobody is answered before it is
    committed. Statements of one link take turns by its row; and as each changes its kinds in the
    same order as the roll-up does, the two cannot deadlock.

    What it costs: as in `upsert`, once for many hits.

    When to use it: for links that many follow at once, where a process has several threads.
    """
    return returned(count_with_others(key, [visit], count, shared)[0])


def record_together(
    key: str, visits: Sequence[Visit], *, shared: Batches = SHARED
) -> list[Outcome]:
    """Return, for each visit of a caller that has several at once, what record() does or raises."""
    return count_with_others(key, visits, count, shared)


def count(key: str, visits: Sequence[Visit]) -> Row | None:
    """Add so many hits and record the visits; return the row, or None without so many uses left."""
    with connection.cursor() as cursor:
        if len(visits) == 1:
            cursor.execute(ONE, [key, *visits[0]])
        else:
            kinds = (f'{begun(visit)}, "hits": {hits}}}' for visit, hits in Counter(visits).items())
            cursor.execute(SEVERAL, [len(visits), key, len(visits), f"[{','.join(kinds)}]"])
        return cursor.fetchone()  # type: ignore[no-any-return]


@lru_cache(4_000)
def begun(visit: Visit) -> str:
    """Return the JSON object of a kind without its end, to which its hits are added."""
    return json.dumps(visit._asdict()).removesuffix("}")
