"""The outbox: receivers of events, and the events that are not delivered yet."""

from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from shorturl.links import keys
from shorturl.models.short_url import CLOCK


class Subscription(models.Model):
    """A receiver of events; shorturl.events.subscribing adds and removes it."""

    url = models.CharField(max_length=2000, unique=True)
    secret = models.CharField(max_length=100)  # readable, because it signs each request
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.url


class LinkEventQuerySet(models.QuerySet["LinkEvent"]):
    def due(self, subscription_id: int) -> "LinkEventQuerySet":
        """Return each link's oldest event for a receiver, unless it is claimed or postponed."""
        older = LinkEvent.objects.filter(
            subscription_id=OuterRef("subscription_id"), key=OuterRef("key"), id__lt=OuterRef("id")
        )
        return self.filter(
            Q(not_before=None) | Q(not_before__lte=CLOCK),
            ~Exists(older),
            subscription_id=subscription_id,
        )


class LinkEvent(models.Model):
    """A change of a short URL, to deliver to one receiver; delivery deletes the row.

    A trigger inserts it in the transaction of the change, which holds the link's row lock. So the
    ids of one link are committed in their order.
    """

    subscription = models.ForeignKey(Subscription, models.CASCADE, "events", db_index=False)
    key = models.CharField(max_length=keys.MAX_LENGTH)
    type = models.CharField(max_length=20)  # such as link.created
    at = models.DateTimeField(db_default=Now())
    data = models.JSONField(default=dict)
    attempts = models.PositiveSmallIntegerField(default=0, db_default=0)
    not_before = models.DateTimeField(null=True)  # until then it is claimed or postponed

    objects = LinkEventQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["subscription", "id"], name="shorturl_linkevent_next_ix"),
            models.Index(fields=["subscription", "key", "id"], name="shorturl_linkevent_older_ix"),
        ]

    def __str__(self) -> str:
        return f"{self.type} of {self.key}"
