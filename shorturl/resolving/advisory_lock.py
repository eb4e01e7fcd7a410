from django.db import connection, transaction

from shorturl.models import ShortUrl


def resolve(key: str) -> ShortUrl:
    """Lock the key by name, read the counter, add one, write it back.

    What it does: takes a lock on the key, not on the row, that is held until the transaction
    ends, and saves the incremented counter. It returns the short URL, and raises
    ShortUrl.DoesNotExist when none is live.

    SQL:
        BEGIN
        SELECT pg_advisory_xact_lock(hashtextextended(…, 0))
        SELECT … FROM shorturl_shorturl WHERE (deleted_at IS NULL AND … AND key = …) LIMIT 21
        UPDATE shorturl_shorturl SET hits = 1 WHERE id = …
        COMMIT

    What goes wrong: among those who count, nothing, as only one process at a time holds the key's
    lock, and the next one reads the row only after it has been committed. But the lock is advice:
    whoever does not ask for it is not kept out. A link that was made to expire between the look
    and the count is counted all the same.

    What it costs: five round trips, during most of which everybody else who follows the same
    link queues.

    When to use it: when what must not happen twice at once is not the change of one row, and all
    who change what is looked at ask for the lock.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [key])
        short_url = ShortUrl.objects.live().get(key=key)
        short_url.hits += 1
        short_url.save(update_fields=["hits"])
    return short_url
