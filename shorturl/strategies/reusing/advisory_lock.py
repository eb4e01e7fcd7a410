from collections.abc import Callable

from django.db import connection, transaction

from shorturl.models import ShortUrl

VERDICT = "right"
SHOWS = "lock the target by name"

LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


def reuse(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> tuple[ShortUrl, bool]:
    """Lock the target by name, then look for a link, and create one if there is none.

    SQL:
        BEGIN
        SELECT pg_advisory_xact_lock(hashtextextended(…, 0))
        SELECT … FROM shorturl_shorturl WHERE … LIMIT 1
        INSERT INTO shorturl_shorturl …
        COMMIT

    Why nothing can go wrong: only one process at a time holds the lock of a target, and the next
    one looks only after the first one has committed. Two targets with the same hash queue
    needlessly. A plain create does not take the lock, and may make several links to one target.

    What it costs: five round trips. Inside a caller's transaction the lock is held until that
    transaction ends, and two callers that each reuse two targets can deadlock.

    When to use it: by default. A unique index cannot replace the lock, because whether a link is
    live depends on the clock, and the condition of an index must not.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(LOCK, [f"{owner_id} {target_url}"])
        links = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
        link = links.order_by("id").first()
        return (link, False) if link else (create(), True)
