from datetime import UTC, datetime

from django.db.backends.postgresql.psycopg_any import sql
from django.db.models import F

from shorturl.models import LIVE, HourlyVisits, ShortUrl, Visit

VERDICT = "wrong"
SHOWS = "get the hour's row, else create it: time of check to time of use"

UPDATE = sql.SQL("""
    UPDATE {table} SET hits = hits + 1
    WHERE key = %s AND {live}
    RETURNING *
""").format(table=sql.Identifier(ShortUrl._meta.db_table), live=LIVE)


def record(key: str, visit: Visit) -> ShortUrl:
    """Count the hit, look for the hour's row, and update it or create one.

    SQL:
        UPDATE shorturl_shorturl SET hits = hits + 1 WHERE key = … AND … RETURNING *
        SELECT … FROM shorturl_hourlyvisits WHERE (hour = … AND key = …) ORDER BY id ASC LIMIT 1
        INSERT INTO shorturl_hourlyvisits (key, people, bots, hour) VALUES (…) RETURNING id, …
        … or, where the SELECT has found a row, UPDATE shorturl_hourlyvisits SET people = …

    What goes wrong: time of check to time of use. Two visits of a new hour find no row, and both
    create one. The unique constraint refuses the second row: its visitor gets an error instead of
    the redirect, and the hit is counted without a visit. Kutt counts like this
    (thedevs-network/kutt, server/queries/visit.queries.js), and locks the row that it finds, but a
    row that does not exist cannot be locked. And a process that is killed between the statements
    leaves a hit without a visit.

    What it costs: three statements and three commits.
    """
    links = list(ShortUrl.objects.raw(UPDATE, [key]))
    if not links:
        raise ShortUrl.DoesNotExist(f"There is no live short URL {key!r}.")
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    bots = int(visit.is_bot)
    people = 1 - bots
    if row := HourlyVisits.objects.filter(short_url=links[0], hour=hour).first():
        this_row = HourlyVisits.objects.filter(pk=row.pk)
        this_row.update(people=F("people") + people, bots=F("bots") + bots)
    else:
        HourlyVisits.objects.create(short_url=links[0], hour=hour, people=people, bots=bots)
    return links[0]
