from datetime import UTC, datetime

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql
from django.db.models import F

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


def record(key: str, visit: Visit) -> ShortUrl:
    """Count the hit, look for the hour's row, and change it or make one.

    What it does: counts the hit as `update_returning` does, then looks whether there is a row of
    this hour and kind; adds one to it if there is, and creates it if not. It returns the short URL,
    and raises ShortUrl.DoesNotExist when none is live.

    SQL:
        UPDATE shorturl_shorturl SET hits = hits + 1
        WHERE key = … AND deleted_at IS NULL
            AND (expires_at IS NULL OR expires_at > statement_timestamp())
            AND (max_hits IS NULL OR hits < max_hits)
        RETURNING id, key, …
        SELECT … FROM shorturl_visitcount WHERE (browser = … AND …) ORDER BY id ASC LIMIT 1
        INSERT INTO shorturl_visitcount (key, …) VALUES (…) RETURNING id, hits
        … or, where the SELECT has found one, UPDATE shorturl_visitcount SET hits = (hits + 1) …

    What goes wrong: two visits of a new hour find no row, and both create one. Here a unique
    constraint refuses the second: its visitor gets an error instead of the redirect, and the hit is
    counted without a visit. Without the constraint there are two rows of one hour. Kutt does it
    like this (thedevs-network/kutt, server/queries/visit.queries.js), and locks the row that it
    finds; where there is none, there is nothing to lock. And a process that ends between the
    statements leaves a hit without a visit.

    What it costs: three statements and as many commits.

    When to use it: never.
    """
    with connection.cursor() as cursor:
        cursor.execute(UPDATE, [key])
        row = cursor.fetchone()
    if row is None:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r}.")
    short_url = ShortUrl.from_db(connection.alias, COLUMNS, row)
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    kind = {"short_url": short_url, "unit": "h", "starts_at": hour, **visit._asdict()}
    if count := VisitCount.objects.filter(**kind).first():
        VisitCount.objects.filter(pk=count.pk).update(hits=F("hits") + 1)
    else:
        VisitCount.objects.create(**kind)
    return short_url
