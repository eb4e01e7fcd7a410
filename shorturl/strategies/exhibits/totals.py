"""What a reader of the counters of any strategy adds up: expressions for queries of ShortUrl.

One statement reads all tables from one snapshot, so it counts a hit once that a roll-up moves
meanwhile.
"""

from typing import Any

from django.db.models import Aggregate, F, Func, IntegerField, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from shorturl.models import HourlyVisits, RecentVisits
from shorturl.strategies.exhibits.models import PartialCount


def sum_for_link(rows: QuerySet[Any], total: Aggregate) -> Coalesce:
    """Return an expression: the total of those rows that belong to the link of the outer query."""
    of_link = rows.filter(short_url=OuterRef("key")).values("short_url")
    return Coalesce(Subquery(of_link.annotate(total=total).values("total")), 0)


TOTAL_HITS = F("hits") + sum_for_link(PartialCount.objects.all(), Sum("hits"))
VISITS_OF_ROW = Func("kinds", function="jsonb_array_length", output_field=IntegerField())
VISITS = sum_for_link(HourlyVisits.objects.all(), Sum(F("people") + F("bots"))) + sum_for_link(
    RecentVisits.objects.all(), Sum(VISITS_OF_ROW)
)
