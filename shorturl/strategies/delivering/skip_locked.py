from collections.abc import Callable

from django.db import transaction

from shorturl.models import LinkEvent

VERDICT = "right"
SHOWS = "FOR UPDATE SKIP LOCKED: each worker has an event, and a transaction open while it sends"


def deliver(subscription_id: int, send: Callable[[LinkEvent], object]) -> bool:
    """Lock the row of an event that is not locked, send the event, delete it, commit.

    SQL:
        BEGIN
        SELECT … FROM shorturl_linkevent WHERE (… NOT EXISTS(…) …) ORDER BY id ASC LIMIT 1
        FOR UPDATE SKIP LOCKED
        DELETE FROM shorturl_linkevent WHERE id IN (…)
        COMMIT

    Why nothing can go wrong: as in `select_for_update`, only the worker that has the row lock sends
    the event. SKIP LOCKED alone would send a link's second event while another worker sends the
    first. The NOT EXISTS prevents that: an event is due only when all older ones of its link are
    deleted.

    What it costs: a transaction that is open as long as the receiver takes. It is ended by
    idle_in_transaction_session_timeout when the receiver takes longer, and the event is sent again.

    When to use it: where a job is short, or does all its work in the database.
    """
    with transaction.atomic():
        due = LinkEvent.objects.due(subscription_id)
        event = due.select_for_update(skip_locked=True).order_by("id").first()
        if event is None:
            return False
        send(event)
        event.delete()
    return True
