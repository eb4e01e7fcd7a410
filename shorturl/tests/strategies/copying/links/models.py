"""Models of two other projects, each with a table for partial counts."""

import uuid
from typing import Any

from django.db import models
from django.db.backends.postgresql.psycopg_any import sql
from django.db.models import F, Q
from django.db.models.functions import Now

CLOCK: models.Func = models.Func(
    function="statement_timestamp", output_field=models.DateTimeField()
)

# The condition of each model's live(), as SQL.
LINK_LIVE = sql.SQL("""deleted_at IS NULL
    AND (expires_at IS NULL OR expires_at > statement_timestamp())
    AND (max_hits IS NULL OR hits < max_hits)""")
BOOKMARK_LIVE = sql.SQL("deleted_at IS NULL")


class KeySpaceExhausted(Exception):
    """Every candidate key was taken."""


class Contended(Exception):
    """Another process was faster in every attempt."""


class Rows(models.QuerySet[Any]):
    def live(self) -> "Rows":
        """Return the live rows; the service's strategies call this method."""
        return self.filter(self.model.LIVE)


class Link(models.Model):
    """Like the service's model: the database has all defaults."""

    key = models.CharField(max_length=20)
    target_url = models.CharField(max_length=2000)
    hits = models.PositiveBigIntegerField(default=0, db_default=0)
    created_at = models.DateTimeField(db_default=Now())
    deleted_at = models.DateTimeField(null=True)
    max_hits = models.BigIntegerField(null=True)
    expires_at = models.DateTimeField(null=True)

    LIVE = Q(
        Q(expires_at=None) | Q(expires_at__gt=CLOCK),
        Q(max_hits=None) | Q(hits__lt=F("max_hits")),
        deleted_at=None,
    )
    objects = Rows.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["key"], name="links_link_key_uk")]


class Bookmark(models.Model):
    """Other names, a UUID as primary key, defaults in Python only, and soft delete.

    A key is free again when its bookmark is deleted.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    slug = models.SlugField()
    url = models.URLField()
    clicks = models.PositiveIntegerField(default=0)
    added = models.DateTimeField(auto_now_add=True)
    deleted_at = models.DateTimeField(null=True)

    LIVE = Q(deleted_at=None)
    objects = Rows.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["slug"], condition=Q(deleted_at=None), name="links_bookmark_live_slug_uk"
            )
        ]


UNCHECKED: dict[str, Any] = {"on_delete": models.DO_NOTHING, "db_constraint": False}
UNCHECKED |= {"db_index": False}


class LinkCount(models.Model):
    short_url = models.ForeignKey(Link, to_field="key", db_column="key", **UNCHECKED)
    slot = models.PositiveSmallIntegerField(null=True)
    hits = models.PositiveBigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["short_url", "slot"], name="linkcount_uk")]


class BookmarkCount(models.Model):
    """Partial counts of a bookmark, by its id, because another bookmark may get its key."""

    short_url = models.ForeignKey(Bookmark, **UNCHECKED)
    slot = models.PositiveSmallIntegerField(null=True)
    clicks = models.PositiveBigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["short_url", "slot"], name="markcount_uk")]
