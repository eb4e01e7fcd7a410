"""Banned domains: no link is made to one, and a ban makes the links expire that lead there.

A create, or a change of a target, asks in its own transaction, and so locks the table of bans until
its COMMIT. A ban waits for these locks before it is committed, and looks for links afterwards. So
either the create sees the ban, or the ban sees the link.
"""

from collections.abc import Collection
from contextlib import suppress
from datetime import timedelta

from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import sql
from django.db.models import Q

from shorturl.exceptions import TargetBanned
from shorturl.links.validators import has_valid_host, parse, shortened, target_host
from shorturl.models import CLOCK, BannedDomain, ShortUrl

BATCH_SIZE = 10_000  # links that a statement reads
# A hit compares the expiry with the time at which its statement began, which may be before the ban
# although the ban gets the row first. No statement takes so long: see statement_timeout.
BEFORE_HITS_UNDER_WAY = timedelta(minutes=1)
TABLE = sql.Identifier(BannedDomain._meta.db_table)
# FOR KEY SHARE locks the table, too, in a mode that only the LOCK below waits for.
FIND = sql.SQL("SELECT domain FROM {} WHERE domain = ANY (%s) FOR KEY SHARE").format(TABLE)
LOCK = sql.SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(TABLE)


def parse_domain(name: str) -> str:
    """Return a domain, as people write it, in ASCII; raise ValidationError if it is none."""
    with suppress(ValidationError):
        address = parse(f"https://{name}/")
        is_host_alone = not address.user and not address.port and address.href.count("/") == 3
        if is_host_alone and has_valid_host(address):
            return address.host
    raise ValidationError(f"{name!r} is not a domain: write it like example.com.")


def ban(domains: Collection[str]) -> int:
    """Ban domains in ASCII, with their subdomains; return how many links expire because of it.

    When it returns, no link to them is followed, and none can be made. It reads all live links.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(LOCK)
        new = [BannedDomain(domain=domain) for domain in domains]
        BannedDomain.objects.bulk_create(new, ignore_conflicts=True)
    return expire_links(frozenset(domains))


def expire_links(domains: frozenset[str]) -> int:
    """Make the links to the domains expire that have not expired; return their number."""
    # Links that are used up, too: their limit can be raised.
    links = ShortUrl.objects.filter(Q(expires_at=None) | Q(expires_at__gt=CLOCK), deleted_at=None)
    in_order = links.order_by("id").values_list("id", "target_url")
    expired = 0
    last_id = 0
    while targets := dict(in_order.filter(id__gt=last_id)[:BATCH_SIZE]):  # by the id of the link
        last_id = max(targets)
        banned = {url for url in targets.values() if not domains.isdisjoint(domains_of(url))}
        # By target, too: a link may have another target by now.
        to_expire = links.filter(id__in=[*targets], target_url__in=banned)
        with transaction.atomic():
            to_expire.lock()
            expired += to_expire.update(expires_at=CLOCK - BEFORE_HITS_UNDER_WAY)
    return expired


def refuse_banned(target_urls: Collection[str]) -> None:
    """Raise TargetBanned if a target is in a banned domain; see banned_targets()."""
    for target_url, domain in banned_targets(target_urls).items():
        raise TargetBanned(shortened(target_url), domain)


def banned_targets(target_urls: Collection[str]) -> dict[str, str]:
    """Return the targets in a banned domain, with that domain.

    Call it in the transaction that writes the targets, before it writes them. A ban then waits for
    the COMMIT, and finds the links.
    """
    domains = {url: domains_of(url) for url in target_urls}
    with connection.cursor() as cursor:
        cursor.execute(FIND, [[*set().union(*domains.values())]])
        banned = {domain for (domain,) in cursor.fetchall()}
    # A target can be in several banned domains: min() chooses always the same one.
    return {url: min(domains[url] & banned) for url in domains if domains[url] & banned}


def domains_of(target_url: str) -> set[str]:
    """Return the domains that a target is in, as bans are stored; none if it is no web address."""
    try:
        labels = target_host(target_url).split(".")
    except ValidationError:  # a row that neither a form nor the API has written
        return set()
    return {".".join(labels[start:]) for start in range(len(labels))}
