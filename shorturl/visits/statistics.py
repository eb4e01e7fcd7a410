"""The statistics of the visits to a selection of links: to one, to those with a tag, or to all.

One statement reads the counters and the visits from one snapshot, so `hits` is always the sum of
the recorded and the unrecorded hits.
"""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from django.db import OperationalError, connection
from django.db.backends.postgresql.psycopg_any import sql
from django.db.models import BigIntegerField, F, Func, OuterRef, QuerySet, Subquery
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce
from django.utils import timezone

from shorturl.exceptions import RangeTooLong
from shorturl.models import (
    RECENT_BY_DIMENSION,
    DailyVisits,
    Dimension,
    HourlyVisits,
    RecentVisits,
    ShortUrlQuerySet,
    daily_since,
    hourly_since,
)
from shorturl.outages import QUERY_CANCELED, driver_error
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
    """The hits of links, their recorded visits, and those within a range."""

    links: int
    oldest: datetime | None  # when the first of the links was made; None without links
    hits: int
    recorded: int | None  # None if the range begins later than the oldest link
    people: int
    bots: int
    periods: list[VisitCount]
    values: list[VisitCount]

    @property
    def not_recorded(self) -> int | None:
        """Hits without a visit; None as `recorded`."""
        return None if self.recorded is None else self.hits - self.recorded


# Each dimension of `days` has each visit once. A month that is kept as a whole belongs to the range
# in which it begins, so consecutive ranges add up to the total. The casts give both parts of `days`
# the same types, without which PostgreSQL would not search the index for a dimension.
STATEMENT = sql.SQL("""
    WITH links AS NOT MATERIALIZED (
        {links}
    ), recent AS (
        SELECT key, starts_at, kinds FROM {recent} JOIN links USING (key)
    ), recent_visits AS MATERIALIZED (
        {recent_by_dimension}
    ), days AS NOT MATERIALIZED (
        SELECT dimension::text, value::text, day, people, bots FROM {daily} JOIN links USING (key)
        UNION ALL SELECT dimension, value, day, people, bots FROM recent_visits
    ), sums AS MATERIALIZED (
        SELECT dimension, value, CASE WHEN %(by_days)s = 'day' THEN day
            ELSE date_trunc('month', day::timestamp)::date END AS day,
            sum(people) AS people, sum(bots) AS bots
        FROM days WHERE dimension = ANY (%(dimensions)s) AND day BETWEEN %(first)s AND %(last)s
        GROUP BY 1, 2, 3
    ), hours AS NOT MATERIALIZED (
        SELECT hour, people, bots FROM {hourly} JOIN links USING (key)
        UNION ALL SELECT hour, people, bots FROM recent_visits WHERE dimension = 'device'
    ), parts AS (
        SELECT CASE WHEN day < %(daily_since)s THEN 'month' ELSE %(by_days)s END AS unit,
            day::timestamp AT TIME ZONE 'UTC' AS at, dimension, value, people, bots
        FROM sums WHERE dimension = %(period_dimension)s AND day < %(hourly_since)s
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
        FROM sums WHERE dimension = ANY (%(value_dimensions)s) GROUP BY dimension, value
    ), range AS (
        SELECT coalesce(sum(people), 0)::bigint AS people, coalesce(sum(bots), 0)::bigint AS bots
        FROM sums WHERE dimension = 'device'
    ), totals AS (
        SELECT count(*) AS links, min(created_at) AS oldest, coalesce(sum(hits), 0)::bigint AS hits
        FROM links
    )
    SELECT totals.*, CASE WHEN oldest IS NULL OR oldest::date >= %(first)s THEN
            (SELECT coalesce(sum(people + bots), 0)::bigint FROM days WHERE dimension = 'device')
        END, range.people, range.bots,
        ARRAY(SELECT json_build_array(unit, starts_at, dimension, value, people, bots)
            FROM periods ORDER BY starts_at, people + bots DESC, value),
        ARRAY(SELECT json_build_array(NULL, NULL, dimension, value, people, bots)
            FROM ranked WHERE least(nth, nth_bot) <= %(top)s ORDER BY people + bots DESC, value)
    FROM totals, range
""")
TABLES = {
    "recent": sql.Identifier(RecentVisits._meta.db_table),
    "hourly": sql.Identifier(HourlyVisits._meta.db_table),
    "daily": sql.Identifier(DailyVisits._meta.db_table),
    "recent_by_dimension": RECENT_BY_DIMENSION,
}


def read(
    links: ShortUrlQuerySet,
    days: Range,
    *,
    by: Bucket = Bucket.MONTH,
    of: Dimension | None = None,
    values_of: Sequence[Dimension] = (),
    top: int = 0,
) -> Statistics:
    """Return the statistics of the visits to these short URLs within a range.

    `periods` has each hour, day or month with visits; with `of`, which hours do not have, each of
    its values. `values` has the first values of each dimension of `values_of`, by people and by
    bots: `top` of each. More than MAX_ITEMS periods mean that some were left out. Raises
    RangeTooLong for several days whose visits take longer to add up than a statement may.
    """
    today = timezone.now().date()
    query, values_of_query = compile_query(links)
    values: dict[str, Any] = {
        **values_of_query,
        "first": days.first,
        "last": days.last,
        "begins": days.begins,
        "ends": days.ends,
        "daily_since": daily_since(today),
        "hourly_since": hourly_since(today) if by == Bucket.HOUR else date.max,
        "by_days": Bucket.MONTH.value if by == Bucket.MONTH else Bucket.DAY.value,
        "period_dimension": (of or Dimension.DEVICE).value,
        "with_values": of is not None,
        "dimensions": [Dimension.DEVICE, *values_of, *([of] if of else [])],
        "value_dimensions": [*values_of],
        "top": top,
        "max_items": MAX_ITEMS + 1,
    }
    with connection.cursor() as cursor:
        try:
            cursor.execute(STATEMENT.format(links=query, **TABLES), values)
        except OperationalError as error:
            number = days.count_buckets(Bucket.DAY)
            if number == 1 or not driver_error(error, QUERY_CANCELED):
                raise
            # An index finds the rows of the days. Half of the rows might take too long again.
            raise RangeTooLong(number, max(1, number // 10)) from error
        *totals, periods, counts = cursor.fetchone()
    lists = [[make_visit_count(row) for row in rows] for rows in (periods, counts)]
    return Statistics(*totals, *lists)


def with_last_week(links: ShortUrlQuerySet) -> ShortUrlQuerySet:
    """Add `last_week`: the visits of today and of the six days before, in UTC, as read() has."""
    days = Range(timezone.now().date() - timedelta(days=6), date.max)
    key = OuterRef("key")
    rolled_up = DailyVisits.objects.filter(
        short_url=key, dimension=Dimension.DEVICE, day__gte=days.first
    )
    recent = RecentVisits.objects.filter(short_url=key, starts_at__gte=days.begins)
    visits = Func("kinds", function="jsonb_array_length")
    week: Any = {"last_week": add_up(rolled_up, F("people") + F("bots")) + add_up(recent, visits)}
    return links.annotate(**week)


def add_up(rows: QuerySet[Any], number: Combinable) -> Coalesce:
    """Return the sum of a number of the rows; 0 without rows."""
    total = rows.order_by().values(total=Func(number, function="SUM"))
    return Coalesce(Subquery(total, output_field=BigIntegerField()), 0)


def compile_query(links: ShortUrlQuerySet) -> tuple[Any, dict[str, Any]]:
    """Return the SQL that selects what STATEMENT needs of the links, and its values by name."""
    query = links.order_by().values("key", "created_at", "hits").query
    text, values = query.sql_with_params()
    by_name = {f"value_{number}": value for number, value in enumerate(values)}
    # Django's text has %s for a value, and %% for a percent sign, as the whole statement has.
    text = text.replace("%%", "%%%%") % tuple(f"%({name})s" for name in by_name)
    return sql.SQL(text), by_name


def make_visit_count(row: Sequence[Any]) -> VisitCount:
    """Return the count of an array that STATEMENT makes, with the fields in the same order."""
    unit, starts_at, dimension, value, people, bots = row
    begins = datetime.fromisoformat(starts_at) if starts_at else None
    bucket = Bucket(unit) if unit else None
    return VisitCount(bucket, begins, Dimension(dimension), value, people, bots)
