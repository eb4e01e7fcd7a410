"""Which short URLs a user or token may view, change and delete, and how an account is removed.

The permission is a condition of the statement that reads or writes the rows, as a check before it
would be a race.
"""

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.db.models import QuerySet

from shorturl.models import ApiToken, ShortUrl, ShortUrlQuerySet

Caller = User | AnonymousUser | ApiToken
BATCH = 1_000  # links of one statement: it locks them for some 20 ms, and their redirects wait


def links_of(caller: Caller, action: str) -> ShortUrlQuerySet:
    """Return the links on which `caller` may do the `action`: view, change or delete.

    A token has only its user's links, even if the user is staff; a token without a user has all.
    Deleted links are included.
    """
    links = ShortUrl.objects.all()
    if isinstance(caller, ApiToken):
        return links.filter(owner_id=caller.user_id) if caller.user_id else links
    if caller.is_staff and caller.has_perm(f"shorturl.{action}_shorturl"):
        return links
    # Anonymous users and unowned links both have id None: never compare them.
    return links.filter(owner_id=caller.pk) if caller.is_authenticated else links.none()


def own_links(caller: Caller) -> ShortUrlQuerySet:
    """Return the links of the caller's account that are not deleted; a token without one has all.

    Unlike links_of(), it returns nobody else's links to staff.
    """
    links = links_of(caller, "view").filter(deleted_at=None)
    return links if isinstance(caller, ApiToken) else links.filter(owner_id=caller.pk)


def visible_to(caller: Caller) -> ShortUrlQuerySet:
    return ShortUrl.objects.all() if settings.SHORTURL_PUBLIC_STATS else links_of(caller, "view")


def may_see_target(caller: Caller, short_url: ShortUrl) -> bool:
    """Return whether `caller` may see the target of a link whose page they may see."""
    # A client that has the target of a link with a limit has used the link.
    if short_url.max_hits is None:
        return True
    # By the key, too, so that a cluster asks one node.
    return links_of(caller, "view").filter(pk=short_url.pk, key=short_url.key).exists()


def owner_id(caller: Caller) -> int | None:
    return caller.user_id if isinstance(caller, ApiToken) else caller.pk


def remove(account: User, *, links_to: User | None = None) -> int:
    """Remove an account; return how many links another one, or nobody, owns now.

    Django would update all links in one statement, and redirects would wait for its COMMIT.
    """
    links = ShortUrl.objects.filter(owner_id=account.pk)
    owner = links_to.pk if links_to else None
    count = hand_over(links, owner)
    with transaction.atomic():
        lock(User.objects.filter(pk=account.pk))
        count += links.update(owner_id=owner)
        account.delete()
    return count


def lock(accounts: QuerySet[User]) -> None:
    """Lock accounts that are about to be removed, and their links, until the COMMIT.

    A create of such an account, whose COMMIT locks its row, is committed before, or refused.
    """
    rows = User.objects.filter(pk__in=accounts.values("pk")).order_by("pk")
    locked = list(rows.select_for_update().values_list("pk", flat=True))
    ShortUrl.objects.filter(owner__in=locked).lock()


def hand_over(links: ShortUrlQuerySet, owner_id: int | None) -> int:
    """Give the links to an account, or to nobody; return how many had another owner.

    Each batch is a transaction, which changes the links that `links` still selects.
    """
    in_order = links.order_by("pk").values_list("pk", flat=True)
    changed = 0
    last_id = 0
    while ids := list(in_order.filter(pk__gt=last_id)[:BATCH]):
        last_id = ids[-1]
        # Without the links that have this owner already: its removal locks the account and waits
        # for them, and the COMMIT here waits for the account. That would be a deadlock.
        to_change = links.filter(pk__in=ids).exclude(owner_id=owner_id)
        with transaction.atomic(durable=True):
            to_change.lock()
            changed += to_change.update(owner_id=owner_id)
    return changed
