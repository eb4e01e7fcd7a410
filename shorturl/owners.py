"""Whose short URLs somebody may view, change and delete.

Each of these is a condition on the rows, for the very statement that reads or writes them: an owner
that was looked at before could be another one by then.
"""

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User

from shorturl.models import ApiToken, ShortUrl, ShortUrlQuerySet

Who = User | AnonymousUser | ApiToken


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
