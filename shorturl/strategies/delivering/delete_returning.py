from collections.abc import Callable

from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import LinkEvent

VERDICT = "wrong"
SHOWS = "DELETE … RETURNING, then send: a crash between loses the event"

TAKE = sql.SQL("""
    DELETE FROM {table} WHERE id = (
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
    """Take an event out of the outbox in one statement, and then send it.

    What goes wrong: no two workers take the same event. But its deletion is committed before it is
    sent, so a worker that is killed between the two loses it, and so does a receiver that is down.
    And the link's next event is due at once: another worker sends it while this one still sends the
    first.

    What it costs: one round trip, and lost events.

    When to use it: where an event may be lost but never repeated, and the order does not matter.
    """
    event = next(iter(LinkEvent.objects.raw(TAKE, [subscription_id])), None)
    if event is None:
        return False
    send(event)
    return True
