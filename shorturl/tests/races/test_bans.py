"""A domain is banned beside creates, changes and hits of links that lead there.

Every order of their statements is run, and has to end as if they had run one after another.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from pginterleave.pytest_plugin import Interleave
from shorturl import bans, following, operations
from shorturl.exceptions import Gone, LinksRefused, TargetBanned
from shorturl.models import BannedDomain, ShortUrl, Visit
from shorturl.tests.callers import TARGET

BANNED = "https://www.banned.example/"
Process = Callable[[], object]
ban = partial(bans.ban, ["banned.example"])


def create() -> None:
    operations.create(BANNED, key="a")


def create_many() -> None:
    rows = [{"target_url": url, "key": key} for url, key in ((TARGET, "b"), (BANNED, "a"))]
    operations.create_many(rows, owner_id=None)


def change_link(**values: object) -> None:
    operations.change(ShortUrl.objects.filter(key="a"), **values)


def follow() -> str:
    return following.follow("a", Visit(is_bot=False)).target_url


def ban_and_follow() -> None:
    """Ban the domain, and check that the link, if it is live, does not lead there."""
    ban()
    with suppress(ShortUrl.DoesNotExist, Gone):
        assert follow() != BANNED


@pytest.mark.parametrize(
    ("beside", "old_target"),  # None if there is no link before
    [
        (create, None),
        (create_many, None),
        (partial(change_link, target_url=BANNED), TARGET),
        (partial(change_link, expires_at=None), BANNED),
    ],
    ids=["create", "create many", "change the target", "remove the expiry"],
)
def test_no_link_to_a_banned_domain_is_live_once_the_ban_has_returned(
    interleave: Interleave, beside: Process, old_target: str | None
) -> None:
    """Process 2 reads that the domain is not banned. Process 1 waits for the COMMIT of process 2.

    Otherwise process 1 would expire the links of the domain before the link of process 2 is there.
    """
    if old_target:
        operations.create(old_target, key="a")
    interleave(ban_and_follow, beside, expected=(TargetBanned, LinksRefused))


def test_a_create_beside_a_lift_is_made_or_banned_and_its_key_is_not_taken(
    interleave: Interleave,
) -> None:
    """The INSERT of process 1 finds the ban, process 2 lifts it, and process 1 finds none."""
    ban()
    interleave(create, BannedDomain.objects.all().delete, expected=TargetBanned)


def test_no_hit_is_counted_once_the_ban_has_returned(interleave: Interleave) -> None:
    """Process 1 bans the domain, and reads the hits. Process 2 adds no hit after that."""

    def ban_and_read_hits() -> int:
        ban()
        return ShortUrl.objects.get().hits

    create()
    interleave(ban_and_read_hits, follow, expected=Gone)


def test_a_link_that_no_longer_leads_to_the_domain_does_not_expire(interleave: Interleave) -> None:
    """Process 1 reads the old target. Process 2 changes it. Process 1 leaves the link alone."""
    create()
    interleave(ban, partial(change_link, target_url=TARGET))
