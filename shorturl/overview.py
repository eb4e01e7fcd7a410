"""An overview of one's links: which are followed most, which less and less, and which never.

Nothing keeps links in such an order, as each hit would have to move its link. So at most CONSIDERED
links are looked at, one's newest ones, each by an index; a page that leaves some out says so.
"""

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import NamedTuple

from django.db.models import Case, F, OuterRef, Q, Subquery, Sum, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce
from django.utils import timezone

from shorturl.models import ShortUrl, ShortUrlQuerySet, VisitCount

CONSIDERED = 10_000  # links; some 0.1 s
SHOWN = 100
PERIOD = timedelta(days=30)  # of whole days, of which today is none yet


def newest(links: ShortUrlQuerySet) -> ShortUrlQuerySet:
    """Return the newest of the links, with all that a list shows of them."""
    considered = links.order_by("-id").values("pk")[:CONSIDERED]
    return ShortUrl.objects.filter(pk__in=considered).with_state().with_total_hits()


def most_followed(links: ShortUrlQuerySet) -> ShortUrlQuerySet:
    """Return those that have been followed, most first."""
    return newest(links).filter(Q(total_hits__gt=0)).order_by(F("total_hits").desc(), "-id")


def fading(links: ShortUrlQuerySet) -> ShortUrlQuerySet:
    """Return those with fewer visits by people in the last PERIOD than in the one before.

    Each has both numbers, `recent` and `before`; those that have lost most are first.
    """
    today = datetime.combine(timezone.now().date(), time.min, UTC)
    middle, first = today - PERIOD, today - 2 * PERIOD
    visits = VisitCount.objects.each_once()
    people = visits.filter(
        short_url=OuterRef("key"), starts_at__gte=first, starts_at__lt=today, is_bot=False
    ).values("short_url")
    recent = Case(When(starts_at__gte=middle, then=F("hits")), default=0)

    def total(hits: Combinable) -> Combinable:
        return Coalesce(Subquery(people.annotate(total=Sum(hits)).values("total")), 0)

    numbers = {
        "lost": total(F("hits") - 2 * recent),
        "recent": total(recent),
        "before": total(F("hits") - recent),
    }
    return newest(links).annotate(**numbers).filter(Q(lost__gt=0)).order_by(F("lost").desc(), "-id")


def never_followed(links: ShortUrlQuerySet) -> ShortUrlQuerySet:
    """Return those that nobody has followed, newest first."""
    return newest(links).filter(Q(total_hits=0)).order_by("-id")


class Overview(NamedTuple):
    """A list of links, by its name in the address."""

    title: str
    links: Callable[[ShortUrlQuerySet], ShortUrlQuerySet]
    none: str  # what is said when it is empty


LISTS = {
    "followed": Overview("Most followed", most_followed, "None of your links was followed yet."),
    "fading": Overview(
        "Fading",
        fading,
        "No link of yours has fewer visits by people in the last 30 days than in the 30 before.",
    ),
    "never": Overview("Never followed", never_followed, "Each of your links was followed."),
}
