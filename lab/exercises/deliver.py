"""Write a correct `deliver`: `pytest lab/exercises/tests/deliver.py` tests it.

`deliver` calls `send` with the oldest event that is due for a receiver, deletes the event, and
returns True. It returns False only when no event is due, or others are sending all that are. The
events of `LinkEvent.objects.due()` are due: the oldest event of each link, unless it is claimed
until a later `not_before`. When `send` raises an error, `deliver` raises it, and the event stays. A
process may be killed while it sends: the event stays in the table until it is sent.

No event is sent twice while all processes live, and the events of a link are sent in their order.

The function below sends some events twice. Which other process has read the same event?
"""

from collections.abc import Callable
from datetime import timedelta

from django.utils import timezone

from shorturl.models import LinkEvent


def deliver(subscription_id: int, send: Callable[[LinkEvent], object]) -> bool:
    event = LinkEvent.objects.due(subscription_id).order_by("id").first()
    if event is None:
        return False
    event.not_before = timezone.now() + timedelta(minutes=1)
    event.save()
    send(event)
    event.delete()
    return True
