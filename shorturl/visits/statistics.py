"""The statistics of a short URL's visits.

One statement reads the visits and the counter from one snapshot. So `hits` is always the sum of the
recorded and the unrecorded hits, even if visits arrive or are rolled up meanwhile.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import RecordedVisits, ShortUrl
from shorturl.models.hit_counts import ANY, EACH_ONCE
from shorturl.visits.chart import Count
from shorturl.visits.ranges import Bucket, Range

UNITS = list(Bucket)
GROUPS_MAX = 10_000  # some 2 MB of JSON


class Dimension(StrEnum):
    REFERRER = "referrer"
    BROWSER = "browser"
    SYSTEM = "system"
    DEVICE = "device"
    COUNTRY = "country"


class VisitGroup(NamedTuple):
    """The visits of a period, of a value, or of both; None in a field means all.

    The `unit` is longer than the requested one if visits are stored only by a longer one.
    """

    unit: Bucket | None
    begins: datetime | None
    values: dict[Dimension, str | None]
    people: int
    bots: int

    @property
    def visits(self) -> int:
        return self.people + self.bots


class Statistics(NamedTuple):
    """The visits within a range in groups, and the link's totals."""

    hits: int
    any_recorded: bool
    recorded: int | None  # of all time; None if the range begins after the link was created
    total: VisitGroup
    groups: list[VisitGroup]

    @property
    def not_recorded(self) -> int | None:
        return None if self.recorded is None else self.hits - self.recorded

    def of(self, dimension: Dimension) -> list[VisitGroup]:
        """Return the groups of a dimension that have no period."""
        without_period = (each for each in self.groups if each.unit is None)
        return [each for each in without_period if each.values[dimension] is not None]

    def series(self, chosen: Range, by: Bucket) -> list[Count]:
        found = {each.begins: each for each in self.groups if each.unit == by}
        none = VisitGroup(by, None, {}, 0, 0)
        counts = ((at, found.get(at, none)) for at in chosen.buckets(by))
        return [Count(at, each.people, each.bots) for at, each in counts]

    def kept_by(self, unit: Bucket, *, than: Bucket) -> int:
        """Return how many visits are stored by this unit, and so are not in a series by `than`."""
        return sum(each.visits for each in self.groups if each.unit == unit != than)


# A row belongs to the range in which its period begins, so consecutive ranges add up to the total.
# The statement reads the rows, which may be many, once, and groups them by hashing into few groups.
# Each group has one dimension, whose rows with a value include each visit once. The periods and the
# total (rank 0) are sums over the groups of one dimension.
STATEMENT = """
    WITH counted AS (
        SELECT unit, starts_at, {dimensions}, grouping({dimensions}) AS dimension,
            coalesce(sum(hits) FILTER (WHERE NOT is_bot), 0) AS people,
            coalesce(sum(hits) FILTER (WHERE is_bot), 0) AS bots
        FROM {visits}
        WHERE key = %(key)s AND starts_at BETWEEN %(begins)s AND %(ends)s
        GROUP BY GROUPING SETS ((unit, starts_at, {counted_by}), {dimensions})
        HAVING coalesce({dimensions}) <> {any}
    ), ranked AS (
        SELECT NULL AS kept, NULL AS begins, {dimensions}, people, bots, least(
            row_number() OVER (PARTITION BY dimension ORDER BY people DESC),
            row_number() OVER (PARTITION BY dimension ORDER BY bots DESC)) AS rank
        FROM counted WHERE starts_at IS NULL
        UNION ALL
        SELECT greatest(%(unit)s, CASE unit WHEN 'm' THEN 2 WHEN 'd' THEN 1 ELSE 0 END) AS kept,
            date_trunc(%(by)s, starts_at, 'UTC') AS begins, {of},
            coalesce(sum(people), 0), coalesce(sum(bots), 0), 0
        FROM counted WHERE starts_at IS NOT NULL GROUP BY GROUPING SETS (({time}), ())
    )
    SELECT kept, begins, {dimensions}, people::bigint, bots::bigint,
        (SELECT hits FROM {links} WHERE key = %(key)s),
        EXISTS (SELECT FROM {visits} WHERE key = %(key)s),
        CASE WHEN %(whole)s THEN (
            SELECT coalesce(sum(hits), 0)::bigint FROM {visits}
            WHERE key = %(key)s AND starts_at < %(begins)s AND {each_once}
        ) + (
            SELECT coalesce(sum(hits), 0)::bigint FROM {visits}
            WHERE key = %(key)s AND starts_at > %(ends)s AND {each_once}
        ) END
    FROM ranked WHERE CASE WHEN begins IS NULL THEN rank <= %(top)s ELSE %(in_time)s END
    ORDER BY begins IS NULL AND rank = 0 DESC, begins, people + bots DESC, {dimensions}
    LIMIT %(most)s
"""


def read(
    short_url: ShortUrl,
    chosen: Range,
    *,
    by: Bucket | None = None,
    of: Dimension | None = None,
    top: int = 0,
) -> Statistics:
    """Return the statistics of the visits to a short URL within a range.

    With `by` there is a group for each hour, day or month that has visits, and with `of` one for
    each of its values of this dimension. With `top` there are also groups without a period, for the
    `top` values of every dimension, of people and of bots. Slightly more than GROUPS_MAX groups
    mean that some were left out.
    """
    statement = sql.SQL(STATEMENT).format(
        dimensions=listed(Dimension),
        time=listed(["kept", "begins", *([of] if of else [])]),
        counted_by=sql.Identifier(of or Dimension.DEVICE),  # the device has the fewest values
        of=sql.SQL(", ").join(
            sql.Identifier(each) if each == of else sql.NULL for each in Dimension
        ),
        visits=sql.Identifier(RecordedVisits._meta.db_table),
        links=sql.Identifier(ShortUrl._meta.db_table),
        each_once=sql.SQL(EACH_ONCE),
        any=sql.Literal(ANY),
    )
    values: dict[str, Any] = {
        "key": short_url.key,
        "begins": chosen.begins,
        "ends": chosen.ends,
        "by": (by or Bucket.DAY).value,
        "unit": UNITS.index(by or Bucket.DAY),
        "whole": chosen.first <= short_url.created_at.date(),  # else it would read all rows
        "in_time": by is not None,
        "top": top,
        "most": GROUPS_MAX + 2 + 2 * top * len(Dimension),
    }
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows = cursor.fetchall()
    total, *groups = (group(row) for row in rows)
    *_, hits, any_recorded, elsewhere = rows[0]
    recorded = None if elsewhere is None else total.visits + elsewhere
    return Statistics(hits, any_recorded, recorded, total, groups)


def listed(names: Iterable[str]) -> Any:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def group(row: Sequence[Any]) -> VisitGroup:
    kept, begins, *values, people, bots, _, _, _ = row
    unit = None if kept is None else UNITS[kept]
    return VisitGroup(unit, begins, dict(zip(Dimension, values, strict=True)), people, bots)
