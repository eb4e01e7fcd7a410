"""The statistics of a short URL's visits.

One statement reads the counter and the visits from one snapshot, so `hits` is always the sum of the
recorded and the unrecorded hits.
"""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql
from django.utils import timezone

from shorturl.models import (
    RECENT_BY_DIMENSION,
    DailyVisits,
    Dimension,
    HourlyVisits,
    RecentVisits,
    ShortUrl,
    daily_since,
    hourly_since,
)
from shorturl.visits.ranges import Bucket, Range

MAX_ITEMS = 10_000  # some 2 MB of JSON


class VisitCount(NamedTuple):
    """The visits of a period, of a value, or of both.

    The `unit` is longer than the requested one if visits are kept only by a longer one.
    """

    unit: Bucket | None
    starts_at: datetime | None
    dimension: Dimension
    value: str | None
    people: int
    bots: int


class Statistics(NamedTuple):
    """The hits of a link, its recorded visits, and those within a range."""

    hits: int
    recorded: int
    is_whole: bool  # whether the range begins no later than the link
    people: int
    bots: int
    periods: list[VisitCount]
    values: list[VisitCount]

    @property
    def not_recorded(self) -> int | None:
        """Hits without a visit; None if the range begins later than the link."""
        return self.hits - self.recorded if self.is_whole else None


# Each dimension of `days` has each visit once. A month that is kept as a whole belongs to the range
# in which it begins, so consecutive ranges add up to the total.
STATEMENT = sql.SQL("""
    WITH recent AS (
        SELECT key, starts_at, kinds FROM {recent} WHERE key = %(key)s
    ), recent_visits AS MATERIALIZED (
        {recent_by_dimension}
    ), days AS NOT MATERIALIZED (
        SELECT dimension, value, day, people, bots FROM {daily} WHERE key = %(key)s
        UNION ALL SELECT dimension, value, day, people, bots FROM recent_visits
    ), hours AS NOT MATERIALIZED (
        SELECT hour, people, bots FROM {hourly} WHERE key = %(key)s
        UNION ALL SELECT hour, people, bots FROM recent_visits WHERE dimension = 'device'
    ), parts AS (
        SELECT CASE WHEN day < %(daily_since)s THEN 'month' ELSE %(by_days)s END AS unit,
            day::timestamp AT TIME ZONE 'UTC' AS at, dimension, value, people, bots
        FROM days WHERE dimension = %(period_dimension)s
            AND day BETWEEN %(first)s AND %(last)s AND day < %(hourly_since)s
        UNION ALL SELECT 'hour', hour, 'device', NULL, people, bots
        FROM hours WHERE hour BETWEEN %(begins)s AND %(ends)s AND hour >= %(hourly_since)s
    ), periods AS (
        SELECT unit, date_trunc(unit, at, 'UTC') AS starts_at, dimension,
            CASE WHEN %(with_values)s THEN value END AS value,
            sum(people)::bigint AS people, sum(bots)::bigint AS bots
        FROM parts GROUP BY 1, 2, 3, 4 LIMIT %(max_items)s
    ), ranked AS (
        SELECT dimension, value, sum(people)::bigint AS people, sum(bots)::bigint AS bots,
            row_number() OVER (PARTITION BY dimension ORDER BY sum(people) DESC, value) AS nth,
            row_number() OVER (PARTITION BY dimension ORDER BY sum(bots) DESC, value) AS nth_bot
        FROM days WHERE dimension = ANY (%(dimensions)s) AND day BETWEEN %(first)s AND %(last)s
        GROUP BY dimension, value
    ), range AS (
        SELECT coalesce(sum(people), 0)::bigint AS people, coalesce(sum(bots), 0)::bigint AS bots
        FROM days WHERE dimension = 'device' AND day BETWEEN %(first)s AND %(last)s
    )
    SELECT hits,
        (SELECT coalesce(sum(people + bots), 0)::bigint FROM days WHERE dimension = 'device'),
        created_at::date >= %(first)s, range.people, range.bots,
        ARRAY(SELECT json_build_array(unit, starts_at, dimension, value, people, bots)
            FROM periods ORDER BY starts_at, people + bots DESC, value),
        ARRAY(SELECT json_build_array(NULL, NULL, dimension, value, people, bots)
            FROM ranked WHERE least(nth, nth_bot) <= %(top)s ORDER BY people + bots DESC, value)
    FROM {links}, range WHERE key = %(key)s
""").format(
    recent=sql.Identifier(RecentVisits._meta.db_table),
    hourly=sql.Identifier(HourlyVisits._meta.db_table),
    daily=sql.Identifier(DailyVisits._meta.db_table),
    links=sql.Identifier(ShortUrl._meta.db_table),
    recent_by_dimension=RECENT_BY_DIMENSION,
)


def read(
    key: str,
    days: Range,
    *,
    by: Bucket = Bucket.MONTH,
    of: Dimension | None = None,
    values_of: Sequence[Dimension] = (),
    top: int = 0,
) -> Statistics:
    """Return the statistics of the visits to a short URL within a range.

    `periods` has each hour, day or month with visits; with `of`, which hours do not have, each of
    its values. `values` has the first values of each dimension of `values_of`, by people and by
    bots: `top` of each. More than MAX_ITEMS periods mean that some were left out.
    """
    today = timezone.now().date()
    values: dict[str, Any] = {
        "key": key,
        "first": days.first,
        "last": days.last,
        "begins": days.begins,
        "ends": days.ends,
        "daily_since": daily_since(today),
        "hourly_since": hourly_since(today) if by == Bucket.HOUR else date.max,
        "by_days": Bucket.MONTH.value if by == Bucket.MONTH else Bucket.DAY.value,
        "period_dimension": (of or Dimension.DEVICE).value,
        "with_values": of is not None,
        "dimensions": [dimension.value for dimension in values_of],
        "top": top,
        "max_items": MAX_ITEMS + 1,
    }
    with connection.cursor() as cursor:
        cursor.execute(STATEMENT, values)
        *totals, periods, counts = cursor.fetchone()
    lists = [[make_visit_count(row) for row in rows] for rows in (periods, counts)]
    return Statistics(*totals, *lists)


def make_visit_count(row: Sequence[Any]) -> VisitCount:
    """Return the count of an array that STATEMENT makes, with the fields in the same order."""
    unit, starts_at, dimension, value, people, bots = row
    begins = datetime.fromisoformat(starts_at) if starts_at else None
    bucket = Bucket(unit) if unit else None
    return VisitCount(bucket, begins, Dimension(dimension), value, people, bots)
