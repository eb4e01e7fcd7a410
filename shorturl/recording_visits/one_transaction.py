from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import ShortUrl, VisitCount
from shorturl.visits import Visit

COLUMNS = [field.attname for field in ShortUrl._meta.concrete_fields]
UPDATE = sql.SQL("""
    UPDATE {} SET hits = hits + 1
    WHERE key = %s AND deleted_at IS NULL
        AND (expires_at IS NULL OR expires_at > statement_timestamp())
        AND (max_hits IS NULL OR hits < max_hits)
    RETURNING {}
""").format(
    sql.Identifier(ShortUrl._meta.db_table), sql.SQL(", ").join(map(sql.Identifier, COLUMNS))
)
KIND = sql.SQL("key, starts_at, unit, referrer, browser, system, device, country, is_bot")
UPSERT = sql.SQL("""
    INSERT INTO {counts} AS counts ({kind}, hits)
    VALUES (%s, date_trunc('hour', statement_timestamp(), 'UTC'), 'h', %s, %s, %s, %s, %s, %s, 1)
    ON CONFLICT ({kind}) DO UPDATE SET hits = counts.hits + 1
""").format(counts=sql.Identifier(VisitCount._meta.db_table), kind=KIND)


def record(key: str, visit: Visit) -> ShortUrl:
    """Count the hit and record the visit in one transaction.

    What it does: counts the hit as `update_returning` does, upserts the row of this hour and kind,
    and commits both. It returns the short URL, and raises ShortUrl.DoesNotExist when none is live;
    then nothing is recorded.

    SQL:
        BEGIN
        UPDATE shorturl_shorturl SET hits = hits + 1
        WHERE key = … AND deleted_at IS NULL
            AND (expires_at IS NULL OR expires_at > statement_timestamp())
            AND (max_hits IS NULL OR hits < max_hits)
        RETURNING id, key, …
        INSERT INTO shorturl_visitcount AS counts
        (key, starts_at, unit, referrer, browser, system, device, country, is_bot, hits)
        VALUES (…, date_trunc('hour', statement_timestamp(), 'UTC'), 'h', …, 1)
        ON CONFLICT
        (key, starts_at, unit, referrer, browser, system, device, country, is_bot)
        DO UPDATE SET hits = counts.hits + 1
        COMMIT

    Why nothing can go wrong: the two are committed together or not at all: what fails is rolled
    back, also when the process is killed between them, and nobody reads one without the other. Each
    statement is right by itself, as in `second_transaction`. Everybody locks the link before the
    hour's row, and a roll-up waits for no link: the two cannot deadlock.

    What it costs: four round trips where `upsert` has one. For two of them, from the UPDATE to the
    COMMIT, the link is locked, and everybody else who follows it queues: behind a process that
    hangs in between, until PostgreSQL's idle_in_transaction_session_timeout.

    When to use it: where a WITH that changes two tables does not run, as it may not where tables
    are distributed over several nodes. Else `upsert`.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(UPDATE, [key])
        row = cursor.fetchone()
        if row is None:
            raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r}.")
        short_url = ShortUrl.from_db(connection.alias, COLUMNS, row)
        cursor.execute(UPSERT, [short_url.key, *visit])
    return short_url
