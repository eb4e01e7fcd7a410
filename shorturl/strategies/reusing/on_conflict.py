from collections.abc import Callable
from hashlib import sha256

from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import ShortUrl
from shorturl.strategies.exhibits.models import ReuseClaim

VERDICT = "right"
SHOWS = "claim the target by a unique index on its hash"

CLAIM = sql.SQL("""
    INSERT INTO {table} (digest) VALUES (%s)
    ON CONFLICT (digest) DO UPDATE SET digest = EXCLUDED.digest
""").format(table=sql.Identifier(ReuseClaim._meta.db_table))


def reuse(
    target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
) -> tuple[ShortUrl, bool]:
    """Claim the target by a unique index, then look for a link, and create one if there is none.

    The claim is the hash of owner and target, in a separate table (`ReuseClaim`): a target can be
    longer than an index entry. The index cannot be on the links, because whether a link is live
    depends on the clock.

    SQL:
        BEGIN
        INSERT INTO exhibits_reuseclaim (digest) VALUES (…)
        ON CONFLICT (digest) DO UPDATE SET digest = EXCLUDED.digest
        SELECT … FROM shorturl_shorturl WHERE … LIMIT 1
        INSERT INTO shorturl_shorturl …
        COMMIT

    Why nothing can go wrong: the unique index makes the second process wait until the first one has
    committed, and its SELECT, a separate statement, sees what the first one did. DO UPDATE makes it
    hold the row's lock until its own COMMIT. DO NOTHING would take no lock: once the row exists and
    its link is deleted or has expired, two processes would both create a link. Under REPEATABLE
    READ the claim fails as a serialization failure.

    What it costs: five round trips, and a row for each target that was ever requested. The row is
    updated even if the link exists, so all requests for one target queue.

    When to use it: where the database has no advisory locks.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(CLAIM, [sha256(f"{owner_id} {target_url}".encode()).digest()])
        links = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
        link = links.order_by("id").first()
        return (link, False) if link else (create(), True)
