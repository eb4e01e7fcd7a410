from datetime import UTC, datetime, time, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql
from django.utils import timezone

from shorturl.models import (
    MAX_VALUES,
    OTHER,
    RECENT_BY_DIMENSION,
    DailyVisits,
    HourlyVisits,
    RecentVisits,
    daily_since,
    hourly_since,
)

VERDICT = "right"
SHOWS = "the same in batches, one roll-up at a time; by hour, day, month and dimension"

BATCH = 1_000  # rows of each table that a transaction takes
TRY_LOCK = "SELECT pg_try_advisory_xact_lock(hashtextextended('roll up visits', 0))"
MOVE = sql.SQL("""
    WITH recent AS (
        DELETE FROM {recent} WHERE id IN (SELECT id FROM {recent} ORDER BY id LIMIT %(batch)s)
        RETURNING *
    ), old_days AS (
        DELETE FROM {days} WHERE id IN (
            SELECT id FROM {days} WHERE day < %(daily_since)s AND extract(day FROM day) <> 1
            ORDER BY day LIMIT %(batch)s
        ) RETURNING *
    ), old_hours AS (
        DELETE FROM {hours} WHERE id IN (
            SELECT id FROM {hours} WHERE hour < %(hourly_since)s ORDER BY hour LIMIT %(batch)s
        ) RETURNING *
    ), visits AS (
        {recent_by_dimension}
    ), added_to_hours AS (
        INSERT INTO {hours} AS counts (key, hour, people, bots)
        SELECT key, hour, sum(people), sum(bots)
        FROM visits WHERE dimension = 'device' AND hour >= %(hourly_since)s GROUP BY key, hour
        ON CONFLICT (key, hour) DO UPDATE
        SET people = counts.people + excluded.people, bots = counts.bots + excluded.bots
    ), sums AS (
        SELECT key, dimension, value, sum(people) AS people, sum(bots) AS bots,
            CASE WHEN day < %(daily_since)s THEN date_trunc('month', day)::date ELSE day END
            AS since
        FROM (
            SELECT key, dimension, value, day, people, bots FROM visits
            UNION ALL SELECT key, dimension, value, day, people, bots FROM old_days
        ) AS moved GROUP BY key, dimension, value, since
    ), stored AS (
        SELECT *, ARRAY(
            SELECT value FROM {days} AS days
            WHERE (days.key, days.dimension, days.day) = (due.key, due.dimension, due.since)
        ) AS known FROM (SELECT DISTINCT key, dimension, since FROM sums) AS due
    ), limited AS (
        SELECT key, dimension, since, people, bots, CASE
            WHEN value = ANY (known) THEN value
            WHEN cardinality(known) + row_number() OVER (
                PARTITION BY key, dimension, since, value = ANY (known)
                ORDER BY people + bots DESC, value
            ) < %(max_values)s THEN value
            ELSE %(other)s END AS value
        FROM sums JOIN stored USING (key, dimension, since)
    ), added_to_days AS (
        INSERT INTO {days} AS counts (key, dimension, day, value, people, bots)
        SELECT key, dimension, since, value, sum(people), sum(bots)
        FROM limited GROUP BY key, dimension, since, value
        ON CONFLICT (key, dimension, day, value) DO UPDATE
        SET people = counts.people + excluded.people, bots = counts.bots + excluded.bots
    )
    SELECT (SELECT count(*) FROM recent) + (SELECT count(*) FROM old_days)
        + (SELECT count(*) FROM old_hours)
""").format(
    recent=sql.Identifier(RecentVisits._meta.db_table),
    hours=sql.Identifier(HourlyVisits._meta.db_table),
    days=sql.Identifier(DailyVisits._meta.db_table),
    recent_by_dimension=RECENT_BY_DIMENSION,
)


def roll_up() -> int:
    """Move a batch of rows in one statement, unless another roll-up is at work.

    This is the service's. It adds recent visits to the rows of their hours and, by dimension, of
    their days. It adds days older than two years to the first day of their month, and removes hours
    older than two weeks, which their days include. A day gets at most 500 values of a dimension of
    a link; further values are added to `other`. A caller repeats it until a batch is not full.

    Why nothing can go wrong: as in `delete_returning`, one statement adds exactly what it deletes.
    Only one roll-up at a time has the lock, and its statement begins after the lock is taken. So it
    sees the values of the roll-up before, and no two pass the limit of 500 together.

    What it costs: four round trips for each batch. No hit waits for it, as a hit only inserts. A
    roll-up that finds the lock taken does nothing, and leaves the rows to the next one.

    When to use it: for tables of any size, at any time, under any traffic.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(TRY_LOCK)
        (locked,) = cursor.fetchone()
        if not locked:
            return 0
        cursor.execute(MOVE, move_params())
        (moved_rows,) = cursor.fetchone()
        return int(moved_rows)


def move_params() -> dict[str, Any]:
    """Return the parameters of the SQL statement MOVE."""
    today = timezone.now().date()
    # Hours are removed a day after the last page shows them: clocks of machines may differ.
    first_hour = datetime.combine(hourly_since(today) - timedelta(days=1), time.min, UTC)
    return {
        "batch": BATCH,
        "hourly_since": first_hour,
        "daily_since": daily_since(today),
        "max_values": MAX_VALUES,
        "other": OTHER,
    }
