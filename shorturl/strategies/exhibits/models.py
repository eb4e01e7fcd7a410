"""The tables that only exhibits write."""

from django.db import models
from django.db.models.functions import Now

from shorturl.models import DailyVisits, HourlyVisits, RecentVisits, ShortUrl, ShortUrlQuerySet
from shorturl.models.visits import VisitsOfLink


class PartialCount(VisitsOfLink):
    """Hits of a short URL that its own row does not include; totals.TOTAL_HITS adds both.

    A row with a slot is one of a link's slots (`slotted_counter`). A row without a slot is a single
    hit (`append_only`).
    """

    slot = models.PositiveSmallIntegerField(null=True)
    hits = models.PositiveBigIntegerField()

    class Meta:
        app_label = "exhibits"  # so that the module can be imported without the app
        # NULLs are distinct, so a link can have many single hits. Totals are read by this index.
        constraints = [
            models.UniqueConstraint(
                fields=["short_url", "slot"], name="exhibits_partialcount_slot_uk"
            )
        ]


class ReuseClaim(models.Model):
    """A requested target: a row that reusing.on_conflict inserts only to lock it."""

    digest = models.BinaryField(primary_key=True)  # of owner and target

    class Meta:
        app_label = "exhibits"

    def __str__(self) -> str:
        return bytes(self.digest).hex()


class SingleCreate(models.Model):
    """A create of a spender, which `count_then_insert` counts."""

    spender = models.CharField(max_length=100)
    since = models.DateTimeField(db_default=Now())

    class Meta:
        app_label = "exhibits"

    def __str__(self) -> str:
        return f"{self.spender} at {self.since}"


def erase(links: ShortUrlQuerySet) -> int:
    """Remove links with their counts and visits, which frees the keys; return how many links.

    Call delete() first, or a hit that is counted meanwhile is left for the key's next link.
    """
    for model in (PartialCount, RecentVisits, HourlyVisits, DailyVisits):
        model._base_manager.filter(short_url__in=links.values("key")).delete()
    # pginterleave: alone - tests and load runs remove links that nobody else uses
    return ShortUrl._base_manager.filter(pk__in=links.values("pk")).delete()[0]
