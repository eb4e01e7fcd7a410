"""The number of a link's recorded visits, for a query that reads the hits in the same statement.

It reads two tables and not the view RecordedVisits: the explorer leaves out no order of a statement
that reads a view.
"""

from django.db.models import Func, IntegerField, OuterRef, Subquery, Sum
from django.db.models.functions import Coalesce

from shorturl.models import RecentVisits, VisitCount


class _Length(Func):
    function = "jsonb_array_length"
    output_field = IntegerField()


_STORED = VisitCount.objects.each_once().filter(short_url=OuterRef("key")).values("short_url")
_RECENT = RecentVisits.objects.filter(short_url=OuterRef("key")).values("short_url")
# An expression for queries of ShortUrl: the visits of all times.
VISITS = Coalesce(Subquery(_STORED.annotate(visits=Sum("hits")).values("visits")), 0) + Coalesce(
    Subquery(_RECENT.annotate(visits=Sum(_Length("kinds"))).values("visits")), 0
)
