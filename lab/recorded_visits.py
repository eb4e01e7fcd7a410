"""The number of a link's recorded visits, for a query that reads the hits in the same statement."""

from django.db.models import OuterRef, Subquery, Sum
from django.db.models.functions import Coalesce

from shorturl.models import VisitCount

_OF_LINK = VisitCount.objects.each_once().filter(short_url=OuterRef("key")).values("short_url")
# An expression for queries of ShortUrl: the visits of all hours, days and months.
VISITS = Coalesce(Subquery(_OF_LINK.annotate(visits=Sum("hits")).values("visits")), 0)
