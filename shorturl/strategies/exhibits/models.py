"""The tables that only exhibits write."""

from django.db import models
from django.db.models.functions import Now

from shorturl.models import ShortUrlQuerySet


class PartialCount(models.Model):
    """Hits of a short URL that its own row does not include; totals.TOTAL_HITS adds both.

    A row with a slot is one of a link's slots (`slotted_counter`). A row without a slot is a single
    hit (`append_only`).
    """

    # Without a foreign key constraint, whose check would lock the link's row for every hit. The
    # column refers to the key, which never changes.
    short_url = models.ForeignKey(
        "shorturl.ShortUrl",
        models.DO_NOTHING,
        to_field="key",
        db_column="key",
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
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

    def __str__(self) -> str:
        return f"{self.hits} of {self.short_url_id}"


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
    """Remove the partial counts of the links, and then the links by their own erase()."""
    rows = PartialCount._base_manager.filter(short_url__in=links.values("key"))
    # pginterleave: alone - tests and the lab empty the tables before they explore
    rows._raw_delete(rows.db)
    return links.erase()
