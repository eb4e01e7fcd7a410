"""Solutions of the exercise `deliver`."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from shorturl.models import LinkEvent
from shorturl.strategies.delivering import (
    advisory_lock,
    delete_returning,
    select_for_update,
    skip_locked,
    update_skip_locked,
    watermark,
)

MINUTE = timedelta(minutes=1)


def _due(subscription_id):
    return LinkEvent.objects.due(subscription_id).order_by("id")


def _locked(subscription_id):
    return _due(subscription_id).select_for_update(skip_locked=True).first()


def _finish(event, send):
    if event is None:
        return False
    send(event)
    event.delete()
    return True


# Right ones, in addition to the strategies.


def claims_if_still_free(subscription_id, send):
    for event in _due(subscription_id)[:10]:
        free = LinkEvent.objects.filter(id=event.id, not_before=event.not_before)
        if event.not_before is None:
            free = LinkEvent.objects.filter(id=event.id, not_before__isnull=True)
        if free.update(not_before=timezone.now() + MINUTE):
            return _finish(event, send)
    return False


def claims_in_a_short_transaction(subscription_id, send, until=None):
    with transaction.atomic():
        event = _locked(subscription_id)
        if event:
            event.not_before = until or timezone.now() + MINUTE
            event.save(update_fields=["not_before"])
    return _finish(event, send)


RIGHT: list[Any] = [
    claims_in_a_short_transaction,
    claims_if_still_free,
    skip_locked.deliver,
    update_skip_locked.deliver,
    select_for_update.deliver,
    advisory_lock.deliver,
]


# Wrong ones.


def in_a_transaction(subscription_id, send):
    with transaction.atomic():
        return _finish(_due(subscription_id).first(), send)


def out_of_order(subscription_id, send):
    with transaction.atomic():
        free = LinkEvent.objects.filter(subscription_id=subscription_id, not_before=None)
        event = free.select_for_update(skip_locked=True).order_by("id").first()
        return _finish(event, send)


def claims_for_ever(subscription_id, send):
    return claims_in_a_short_transaction(subscription_id, send, datetime(9999, 1, 1, tzinfo=UTC))


def lets_go_too_early(subscription_id, send):
    with transaction.atomic():
        event = _locked(subscription_id)
    return _finish(event, send)


def of_any_receiver(subscription_id, send):
    with transaction.atomic():
        event = LinkEvent.objects.select_for_update(skip_locked=True).order_by("id").first()
        return _finish(event, send)


def swallows(subscription_id, send):
    def quietly(event):
        with suppress(ValueError):
            send(event)

    return update_skip_locked.deliver(subscription_id, quietly)


def forgets_to_delete(subscription_id, send):
    with transaction.atomic():
        event = _locked(subscription_id)
        if event:
            send(event)
    return event is not None


WRONG: dict[Any, str] = {
    in_a_transaction: "event 1 of a was sent 2 times",
    delete_returning.deliver: "event 1 is lost",
    watermark.deliver: "the events [1, 2, 3] are sent, expected [1]",
    out_of_order: "the events of a are sent in the order [2, 1]",
    claims_for_ever: "an event is claimed for longer than an hour",
    lets_go_too_early: "event 1 of a was sent 2 times",
    of_any_receiver: "the events [-1] are sent, expected [1]",
    swallows: "send has raised an error, and process 1 gets True",
    forgets_to_delete: "the events [1, 2, 3] are left, expected [2, 3]",
}
