"""The number of recorded visits of a link, for a statement that reads its hits as well."""

from django.db.models import OuterRef, Subquery, Sum
from django.db.models.functions import Coalesce

from shorturl.models import VisitCount

_OF_LINK = VisitCount.objects.each_once().filter(short_url=OuterRef("key")).values("short_url")
# For a query of short URLs: their visits in all hours, days and months.
VISITS = Coalesce(Subquery(_OF_LINK.annotate(visits=Sum("hits")).values("visits")), 0)
