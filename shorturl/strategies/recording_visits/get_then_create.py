from datetime import UTC, datetime

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql
from django.db.models import F

from shorturl.models import LIVE, HourlyVisits, ShortUrl, Visit

VERDICT = "wrong"
SHOWS = "get the hour's row, else create it: time of check to time of use"

COLUMNS = [field.attname for field in ShortUrl._meta.concrete_fields]
UPDATE = sql.SQL("""
    UPDATE {table} SET hits = hits + 1
    WHERE key = %s AND {live}
    RETURNING {columns}
""").format(
    table=sql.Identifier(ShortUrl._meta.db_table),
    columns=sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
    live=LIVE,
)


def record(key: str, visit: Visit) -> ShortUrl:
    """Count the hit, look for the hour's row, and update it or create one.

    SQL:
        UPDATE shorturl_shorturl SET hits = hits + 1 WHERE key = … AND … RETURNING id, key, …
        SELECT … FROM shorturl_hourlyvisits WHERE (hour = … AND key = …) ORDER BY id ASC LIMIT 1
        INSERT INTO shorturl_hourlyvisits (key, people, bots, hour) VALUES (…) RETURNING id, …
        … or, where the SELECT has found a row, UPDATE shorturl_hourlyvisits SET people = …

    What goes wrong: time of check to time of use. Two visits of a new hour find no row, and both
    create one. Here a unique constraint refuses the second row: its visitor gets an error instead
    of the redirect, and the hit is counted without a visit. Without the constraint the hour has two
    rows. Kutt counts like this (thedevs-network/kutt, server/queries/visit.queries.js), and locks
    the row that it finds, but a row that does not exist cannot be locked. And a process that is
    killed between the statements leaves a hit without a visit.

    What it costs: three statements and three commits.

    When to use it: never.
    """
    with connection.cursor() as cursor:
        cursor.execute(UPDATE, [key])
        row = cursor.fetchone()
    if row is None:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r}.")
    short_url = ShortUrl.from_db(connection.alias, COLUMNS, row)
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    row_of_hour = HourlyVisits.objects.filter(short_url=short_url, hour=hour)
    new = {"people": int(not visit.is_bot), "bots": int(visit.is_bot)}
    if visits := row_of_hour.first():
        HourlyVisits.objects.filter(pk=visits.pk).update(
            people=F("people") + new["people"], bots=F("bots") + new["bots"]
        )
    else:
        HourlyVisits.objects.create(short_url=short_url, hour=hour, **new)
    return short_url
