"""Which short URLs a user or token may view, change and delete, and how an account is removed.

The permission is a condition of the statement that reads or writes the rows. A check before it
would be a race condition: the owner could change in between.
"""

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import NotSupportedError, connection, transaction
from django.db.backends.postgresql.psycopg_any import sql

from shorturl.models import ApiToken, ShortUrl, ShortUrlQuerySet

Who = User | AnonymousUser | ApiToken
BATCH = 1_000  # links of one statement: it locks them for some 20 ms, and their redirects wait

DISOWN = sql.SQL("""
    WITH batch AS (
        SELECT id FROM {links} WHERE owner_id = %s ORDER BY id LIMIT %s {lock}
    )
    UPDATE {links} AS link SET owner_id = NULL
    FROM batch WHERE link.id = batch.id AND link.owner_id = %s
""")
# roll_up() locks links in the same order, so the two cannot deadlock.
IN_ORDER = "FOR NO KEY UPDATE"
# Without it Citus changes links by several sessions, and then refuses to remove the account in the
# same transaction. PostgreSQL accepts any setting whose name has a dot.
ONE_SESSION = "SET LOCAL citus.multi_shard_modify_mode TO 'sequential'"


def links_of(who: Who, action: str) -> ShortUrlQuerySet:
    """Return the links on which `who` may do the `action`: view, change or delete.

    A token has only its user's links, even if the user is staff; a token without a user has all.
    Deleted links are included.
    """
    links = ShortUrl.objects.all()
    if isinstance(who, ApiToken):
        return links.filter(owner_id=who.user_id) if who.user_id else links
    if who.is_staff and who.has_perm(f"shorturl.{action}_shorturl"):
        return links
    # Anonymous users and unowned links both have id None: never compare them.
    return links.filter(owner_id=who.pk) if who.is_authenticated else links.none()


def visible_to(who: Who) -> ShortUrlQuerySet:
    return ShortUrl.objects.all() if settings.SHORTURL_PUBLIC_STATS else links_of(who, "view")


def may_see_target(who: Who, short_url: ShortUrl) -> bool:
    """Return whether `who` may see the target of a link whose page they may see."""
    # A client that has the target of a link with a limit has used the link.
    if short_url.max_hits is None:
        return True
    # By the key, too, so that a cluster asks one node.
    return links_of(who, "view").filter(pk=short_url.pk, key=short_url.key).exists()


def owner_id(who: Who) -> int | None:
    return who.user_id if isinstance(who, ApiToken) else who.pk


def remove(account: User) -> int:
    """Remove an account; return how many links have lost their owner. They stay in service.

    Django would update all links in one statement, and redirects would wait for its COMMIT. Here
    each batch is a separate transaction. Links that the account creates after the last batch lose
    their owner in the removal itself. Raises RuntimeError inside atomic().
    """
    links = 0
    while disowned := disown(account.pk):
        links += disowned
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(ONE_SESSION)
        # A form that gives a link to an account locks the account first too, so the two cannot
        # deadlock.
        User.objects.select_for_update().filter(pk=account.pk).first()
        account.delete()
    return links


def disown(account_id: int, lock: str = IN_ORDER) -> int:
    """Remove the owner from up to BATCH links of an account; return how many.

    Citus refuses the lock, because the rows have many keys; then they are selected without it, and
    the UPDATE compares each link's owner again.
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
