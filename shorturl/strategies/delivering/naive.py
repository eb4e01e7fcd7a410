from collections.abc import Callable
from datetime import timedelta

from shorturl.models import CLOCK, LinkEvent

VERDICT = "wrong"
SHOWS = "SELECT, then UPDATE: two workers claim the same event"

LEASE = timedelta(minutes=1)  # longer than a delivery can take


def deliver(subscription_id: int, send: Callable[[LinkEvent], object]) -> bool:
    """Look for an event that is free, claim it, send it, delete it.

    SQL:
        SELECT … FROM shorturl_linkevent WHERE (… NOT EXISTS(…) …) ORDER BY id ASC LIMIT 1
        UPDATE shorturl_linkevent SET not_before = (statement_timestamp() + …) WHERE id = …
        DELETE FROM shorturl_linkevent WHERE id IN (…)

    What goes wrong: two workers read the same event before either claims it, and both send it, even
    without a crash.

    What it costs: three round trips, and events delivered twice.
    """
    event = LinkEvent.objects.due(subscription_id).order_by("id").first()
    if event is None:
        return False
    LinkEvent.objects.filter(id=event.id).update(not_before=CLOCK + LEASE)
    send(event)
    event.delete()
    return True
