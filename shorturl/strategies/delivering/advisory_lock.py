from collections.abc import Callable

from django.db import connection, transaction

from shorturl.models import LinkEvent

VERDICT = "right"
SHOWS = "lock the link by name, and read again"

TRY_LOCK = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))"
LINKS = 10  # tried one after the other


def deliver(subscription_id: int, send: Callable[[LinkEvent], object]) -> bool:
    """Lock a link that has events by name, read again, send the link's oldest event, delete it.

    Returns False when no link has a due event, or when the locks of the first ten are not free.

    SQL:
        SELECT key AS key FROM shorturl_linkevent WHERE (… NOT EXISTS(…) …) ORDER BY id ASC LIMIT 10
        BEGIN
        SELECT pg_try_advisory_xact_lock(hashtextextended(…, 0))
        SELECT … FROM shorturl_linkevent WHERE (… key = …) ORDER BY id ASC LIMIT 1
        DELETE FROM shorturl_linkevent WHERE id IN (…)
        COMMIT

    Why nothing can go wrong: only one worker at a time has a link's lock of a receiver, and it
    reads the event only after it has got the lock. The lock ends with the transaction, also when
    the worker is killed. A lock inside the first SELECT would be wrong: PostgreSQL may call the
    function for more rows than the SELECT returns.

    What it costs: five round trips, more for each link that is locked, and a transaction that is
    open as long as the receiver takes. All workers have to take the same lock.

    When to use it: where the work belongs to a name that has no row to lock.
    """
    due = LinkEvent.objects.due(subscription_id).order_by("id")
    for key in due.values_list("key", flat=True)[:LINKS]:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(TRY_LOCK, [f"{subscription_id} {key}"])
            (is_free,) = cursor.fetchone()
            event = due.filter(key=key).first() if is_free else None
            if event:
                send(event)
                event.delete()
                return True
    return False
