from collections.abc import Callable
from hashlib import sha256

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import ReuseClaim, ShortUrl

CLAIM = sql.SQL("""
    INSERT INTO {} (digest) VALUES (%s)
    ON CONFLICT (digest) DO UPDATE SET digest = EXCLUDED.digest
""").format(sql.Identifier(ReuseClaim._meta.db_table))


def reuse(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> tuple[ShortUrl, bool]:
    """Claim the target by a unique index, then look for a link, and create one where there is none.

    What it does: inserts the hash of owner and target into a table of its own, ReuseClaim, or
    locks the row that is there, and then does what `find_then_create` does. It returns the short
    URL, and whether it is new.

    SQL:
        BEGIN
        INSERT INTO shorturl_reuseclaim (digest) VALUES (…)
        ON CONFLICT (digest) DO UPDATE SET digest = EXCLUDED.digest
        SELECT … FROM shorturl_shorturl WHERE … LIMIT 1
        INSERT INTO shorturl_shorturl …
        COMMIT

    Why nothing can go wrong: the unique index has the second process wait until the first has
    committed, and DO UPDATE has it hold the row that it found until it commits itself. DO NOTHING
    would hold nothing: once the row is there, and its link deleted or expired, two processes
    would go on to create side by side. The look is a statement of its own, after the wait, so that
    it sees what the other one has committed. Under REPEATABLE READ it would not, and there the
    claim is refused as a serialization failure. The index is on a hash because a target can be
    longer than an entry of an index. It cannot be on the links: whether one is live depends on the
    clock, and plain creates may make many.

    What it costs: five round trips, and a row for each target that was ever asked for. A target
    that exists is written to as well, so that everybody who asks for it queues.

    When to use it: where the database has no advisory locks.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(CLAIM, [sha256(f"{owner_id} {target_url}".encode()).digest()])
        links = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
        found = links.order_by("id").first()
        return (found, False) if found else (create(), True)
