from collections.abc import Callable

from django.db import connection, transaction

from shorturl.models import ShortUrl

LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


def reuse(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> tuple[ShortUrl, bool]:
    """Lock the target by name, then look for a link, and create one where there is none.

    What it does: takes a lock on the hash of owner and target, which is held until the transaction
    ends, and then does what `find_then_create` does. It returns the short URL, and whether it is
    new.

    SQL:
        BEGIN
        SELECT pg_advisory_xact_lock(hashtextextended(…, 0))
        SELECT … FROM shorturl_shorturl WHERE … LIMIT 1
        INSERT INTO shorturl_shorturl …
        COMMIT

    Why nothing can go wrong: one process at a time holds the lock of a target, and the next one
    looks only after the first has committed. Two targets with the same hash queue needlessly, no
    more. That the lock is advice does no harm: who makes a link without asking for it may, as a
    plain create is free to make many.

    What it costs: five round trips, and nothing that stays. Inside a caller's transaction the lock
    is held until that one ends, and two callers that each reuse two targets can deadlock.

    When to use it: by default. No unique index can do it, because whether a link is live depends
    on the clock, and an index does not.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(LOCK, [f"{owner_id} {target_url}"])
        links = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
        found = links.order_by("id").first()
        return (found, False) if found else (create(), True)
