from django.db import connection, transaction

from shorturl.models import ShortUrl

VERDICT = "right, unless a link has a limit or an expiry"
SHOWS = "lock the key by name"

LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


def resolve(key: str) -> ShortUrl:
    """Lock the key by name, read the counter, add one, write it back.

    SQL:
        BEGIN
        SELECT pg_advisory_xact_lock(hashtextextended(…, 0))
        SELECT … FROM shorturl_shorturl WHERE (deleted_at IS NULL AND … AND key = …) LIMIT 21
        UPDATE shorturl_shorturl SET hits = 1 WHERE id = …
        COMMIT

    What goes wrong: between processes that count, nothing. Only one process at a time holds the
    key's lock, and the next one reads the row only after the first one has committed. But
    statements that do not take the lock do not wait. When one of them makes the link expire between
    the read and the write, the hit is counted nevertheless.

    What it costs: five round trips. During most of them all other hits of the link wait.

    When to use it: to serialize something other than the change of one row, where every writer of
    the data that is read takes the lock.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(LOCK, [key])
        short_url = ShortUrl.objects.live().get(key=key)
        short_url.hits += 1
        short_url.save(update_fields=["hits"])
    return short_url
