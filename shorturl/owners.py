"""Whose short URLs somebody may view, change and delete, and what becomes of them without an owner.

Each of the first is a condition on the rows, for the very statement that reads or writes them: an
owner that was looked at before could be another one by then.
"""

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import NotSupportedError, connection, transaction
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import ApiToken, ShortUrl, ShortUrlQuerySet

Who = User | AnonymousUser | ApiToken
BATCH = 1_000  # links of one statement: some 20 ms of a lock, for which their redirects wait

DISOWN = sql.SQL("""
    WITH batch AS (
        SELECT id FROM {links} WHERE owner_id = %s ORDER BY id LIMIT %s {lock}
    )
    UPDATE {links} AS link SET owner_id = NULL
    FROM batch WHERE link.id = batch.id AND link.owner_id = %s
""")
# In the order of roll_up(), so that the two cannot deadlock.
IN_ORDER = "FOR NO KEY UPDATE"
# Or Citus, where several sessions have changed links at once, refuses to remove their account in
# the same transaction. PostgreSQL takes any setting whose name has a dot.
ONE_SESSION = "SET LOCAL citus.multi_shard_modify_mode TO 'sequential'"


def links_of(who: Who, action: str) -> ShortUrlQuerySet:
    """Return the links that somebody may view, change or delete, which is the `action`.

    Those are one's own, and all for the staff that may do the same in the admin. A token has its
    user's own, even of staff, and without a user all. Deleted links are among them.
    """
    links = ShortUrl.objects.all()
    if isinstance(who, ApiToken):
        return links.filter(owner_id=who.user_id) if who.user_id else links
    if who.is_staff and who.has_perm(f"shorturl.{action}_shorturl"):
        return links
    # A visitor has no id, and neither has the owner of what is nobody's.
    return links.filter(owner_id=who.pk) if who.is_authenticated else links.none()


def visible_to(who: Who) -> ShortUrlQuerySet:
    """Return the links whose page somebody may see."""
    return ShortUrl.objects.all() if settings.SHORTURL_PUBLIC_STATS else links_of(who, "view")


def owner_id(who: Who) -> int | None:
    """Return the id of the account that a link which somebody makes belongs to; None is nobody."""
    return who.user_id if isinstance(who, ApiToken) else who.pk


def remove(account: User) -> int:
    """Remove an account, and return how many links are nobody's now; they go on leading there.

    Django would take all of them from it in one statement, and redirects would wait for the COMMIT.
    Here they go before, a batch at a time, so that a removal that fails is begun again and goes on;
    only what the account makes meanwhile goes with it. Raises RuntimeError inside atomic().
    """
    links = 0
    while disowned := disown(account.pk):
        links += disowned
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(ONE_SESSION)
        # As whoever gives a link to an account locks that first, the two cannot deadlock.
        User.objects.select_for_update().filter(pk=account.pk).first()
        account.delete()
    return links


def disown(account_id: int, lock: str = IN_ORDER) -> int:
    """Make up to BATCH links of an account nobody's, and return how many.

    They are found with this `lock`, and without one where Citus refuses it, as the rows have many
    keys: so each link's owner is compared again as it is changed. roll_up() has no such lock there
    either.
    """
    links, values = sql.Identifier(ShortUrl._meta.db_table), [account_id, BATCH, account_id]
    try:
        with transaction.atomic(durable=True), connection.cursor() as cursor:
            cursor.execute(DISOWN.format(links=links, lock=sql.SQL(lock)), values)
            return int(cursor.rowcount)
    except NotSupportedError:
        if not lock:
            raise
        return disown(account_id, lock="")
