from collections.abc import Callable

from django.db import transaction

from shorturl.models import LinkEvent

VERDICT = "right"
SHOWS = "a row lock while it sends: right, and one worker at a time"


def deliver(subscription_id: int, send: Callable[[LinkEvent], object]) -> bool:
    """Lock the event's row, send the event, delete it, commit.

    SQL:
        BEGIN
        SELECT … FROM shorturl_linkevent WHERE (… NOT EXISTS(…) …) ORDER BY id ASC LIMIT 1
        FOR UPDATE
        DELETE FROM shorturl_linkevent WHERE id IN (…)
        COMMIT

    Why nothing can go wrong: only the worker that has the row lock sends the event. A worker that
    has waited finds the row deleted, and goes on to the next one. A killed worker's lock ends with
    its session, and the event is still there. The link's next event is due only when this one is
    deleted.

    What it costs: all workers of a receiver wait for the same row, so one at a time sends. A
    transaction is open as long as the receiver takes, which keeps a connection and holds up VACUUM.

    When to use it: with one worker for each receiver, and receivers that answer quickly.
    """
    with transaction.atomic():
        due = LinkEvent.objects.due(subscription_id)
        event = due.select_for_update().order_by("id").first()
        if event is None:
            return False
        send(event)
        event.delete()
    return True
