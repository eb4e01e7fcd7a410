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

HAND_OVER = sql.SQL("""
    WITH batch AS (
        SELECT id FROM {links} WHERE owner_id = %s ORDER BY id LIMIT %s {lock}
    )
    UPDATE {links} AS link SET owner_id = %s
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


def remove(account: User, *, links_to: User | None = None) -> int:
    """Remove an account; return how many links another one, or nobody, owns now.

    Django would update all links in one statement, and redirects would wait for its COMMIT. Here
    each batch is a separate transaction. Links that the account creates after the last batch are
    handed over in the removal itself. Raises RuntimeError inside atomic().
    """
    links, owner = 0, links_to.pk if links_to else None
    while handed_over := hand_over(account.pk, owner):
        links += handed_over
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(ONE_SESSION)
        # A form that gives a link to an account locks the account first too, so the two cannot
        # deadlock.
        User.objects.select_for_update().filter(pk=account.pk).first()
        if owner:
            links += ShortUrl.objects.filter(owner_id=account.pk).update(owner_id=owner)
        account.delete()
    return links


def hand_over(account_id: int, owner_id: int | None, lock: str = IN_ORDER) -> int:
    """Give up to BATCH links of an account another owner, or none; return how many.

    Citus refuses the lock, because the rows have many keys; then they are selected without it, and
    the UPDATE compares each link's owner again.
    """
    links = sql.Identifier(ShortUrl._meta.db_table)
    values = [account_id, BATCH, owner_id, account_id]
    try:
        with transaction.atomic(durable=True), connection.cursor() as cursor:
            cursor.execute(HAND_OVER.format(links=links, lock=sql.SQL(lock)), values)
            return int(cursor.rowcount)
    except NotSupportedError:
        if not lock:
            raise
        return hand_over(account_id, owner_id, lock="")
