"""An overview of a user's links: the most followed, the fading, and the never followed.

No index has these orders, because each hit would have to update it. So only the user's newest
CONSIDERED links are read, each by an index. The page says so when the user has more.
"""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from itertools import chain
from typing import NamedTuple

from django.db.models import Case, F, OuterRef, Q, Subquery, Sum, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce
from django.utils import timezone

from shorturl.models import RecordedVisits, ShortUrl, ShortUrlQuerySet

CONSIDERED = 10_000  # links; some 0.1 s
SHOWN = 100
RECENT = 1_000  # links whose tags are suggested; some 2 ms
PERIOD = timedelta(days=30)  # whole days, without today


def newest(links: ShortUrlQuerySet) -> ShortUrlQuerySet:
    considered = links.order_by("-id").values("pk")[:CONSIDERED]
    return ShortUrl.objects.filter(pk__in=considered).with_state()


def used_tags(links: ShortUrlQuerySet) -> list[str]:
    newest_tags = links.order_by("-id").values_list("tags", flat=True)[:RECENT]
    counts = Counter(chain.from_iterable(tags or [] for tags in newest_tags))
    return [tag for tag, _ in counts.most_common()]


def fading(links: ShortUrlQuerySet) -> ShortUrlQuerySet:
    """Return the links with fewer visits by people in the last PERIOD than in the one before.

    Each has both numbers, `recent` and `before`. The links that have lost most come first.
    """
    today = datetime.combine(timezone.now().date(), time.min, UTC)
    middle, first = today - PERIOD, today - 2 * PERIOD
    visits = RecordedVisits.objects.each_once()
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


class Overview(NamedTuple):
    title: str
    links: Callable[[ShortUrlQuerySet], ShortUrlQuerySet]
    none: str  # shown when the list is empty


# By the value of `show` in the address.
LISTS = {
    "followed": Overview(
        "Most followed",
        lambda links: newest(links).filter(hits__gt=0).order_by("-hits", "-id"),
        "None of your links was followed yet.",
    ),
    "fading": Overview(
        "Fading",
        fading,
        "No link of yours has fewer visits by people in the last 30 days than in the 30 before.",
    ),
    "never": Overview(
        "Never followed",
        lambda links: newest(links).filter(hits=0).order_by("-id"),
        "Each of your links was followed.",
    ),
}
