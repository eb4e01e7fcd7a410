from collections.abc import Callable

from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import LinkEvent

VERDICT = "right"
SHOWS = "UPDATE … WHERE id = (SELECT … SKIP LOCKED): a lease of one minute"

# A minute is longer than `send` takes. The one of the service waits 5 seconds for a connection, as
# long for each message of TLS, and 10 seconds for the answer.
TAKE = sql.SQL("""
    UPDATE {table} SET not_before = statement_timestamp() + interval '1 minute' WHERE id = (
        SELECT id FROM {table} AS event
        WHERE subscription_id = %s AND (not_before IS NULL OR not_before <= statement_timestamp())
            AND NOT EXISTS (
                SELECT FROM {table} AS older
                WHERE older.subscription_id = event.subscription_id
                    AND older.key = event.key AND older.id < event.id
            )
        ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    RETURNING *
""").format(table=sql.Identifier(LinkEvent._meta.db_table))


def deliver(subscription_id: int, send: Callable[[LinkEvent], object]) -> bool:
    """Claim an event for a minute in one statement, send it, delete it.

    Why nothing can go wrong: the subquery locks the row and checks its newest version, so no two
    workers claim the same event. While the event is there, the link's next event is not due. When a
    worker is killed, its claim ends by the clock, and another worker sends the event. A worker that
    hangs for longer can cause a second delivery, which receivers have to expect anyway.

    What it costs: two round trips, and one row version for the claim. No transaction is open while
    the receiver takes its time. After a crash an event waits until its claim ends.

    When to use it: for work outside the database, which can take long.
    """
    event = next(iter(LinkEvent.objects.raw(TAKE, [subscription_id])), None)
    if event is None:
        return False
    send(event)
    event.delete()
    return True
