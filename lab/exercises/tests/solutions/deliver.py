"""Solutions of the exercise `deliver`."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from shorturl.models import LinkEvent
from shorturl.strategies.delivering import (
    advisory_lock,
    delete_returning,
    select_for_update,
    skip_locked,
    watermark,
)


def claims(subscription_id, send, minutes=1):
    with transaction.atomic():
        due = LinkEvent.objects.due(subscription_id).order_by("id")
        event = due.select_for_update(skip_locked=True).first()
        if event is None:
            return False
        event.not_before = timezone.now() + timedelta(minutes=minutes)
        event.save(update_fields=["not_before"])
    send(event)
    event.delete()
    return True


RIGHT: list[Any] = [claims, select_for_update.deliver, advisory_lock.deliver]


def in_a_transaction(subscription_id, send):
    with transaction.atomic():
        event = LinkEvent.objects.due(subscription_id).order_by("id").first()
        if event is None:
            return False
        send(event)
        event.delete()
        return True


def out_of_order(subscription_id, send):
    with transaction.atomic():
        free = LinkEvent.objects.filter(subscription_id=subscription_id, not_before=None)
        event = free.select_for_update(skip_locked=True).order_by("id").first()
        if event is None:
            return False
        send(event)
        event.delete()
        return True


def claims_for_a_day(subscription_id, send):
    return claims(subscription_id, send, minutes=24 * 60)


def swallows(subscription_id, send):
    def quietly(event):
        with suppress(ValueError):
            send(event)

    return skip_locked.deliver(subscription_id, quietly)


WRONG: dict[Any, str] = {
    in_a_transaction: "is right, as one after the other",
    delete_returning.deliver: "is not in the table",
    watermark.deliver: "is right",
    out_of_order: "is right",
    claims_for_a_day: "is claimed for more than an hour",
    swallows: "is right",
}
