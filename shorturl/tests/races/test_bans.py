"""A domain is banned beside creates, changes and hits of links that lead there."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave
from shorturl import bans, following, operations
from shorturl.exceptions import Gone, LinksRefused, TargetBanned
from shorturl.models import ShortUrl, Visit
from shorturl.tests.callers import TARGET

BANNED = "https://www.banned.example/"
Process = Callable[[], object]


def create() -> None:
    operations.create(BANNED, key="a")


def create_many() -> None:
    rows = [{"target_url": url, "key": key} for url, key in ((TARGET, "b"), (BANNED, "a"))]
    operations.create_many(rows, owner_id=None)


def change(**values: object) -> Process:
    return lambda: operations.change(ShortUrl.objects.filter(key="a"), **values)


def follow() -> str:
    return following.follow("a", Visit(is_bot=False)).target_url


def ban_and_follow() -> None:
    """Follow the link when the ban has returned; if there is one, it leads elsewhere."""
    bans.ban(["banned.example"])
    with suppress(ShortUrl.DoesNotExist, Gone):
        assert follow() != BANNED


def no_link_leads_there(outcomes: list[Outcome]) -> None:
    live = ShortUrl.objects.live().values_list("target_url", flat=True)
    assert not bans.banned_targets({*live})


@pytest.mark.parametrize(
    ("beside", "target_url"),
    [
        (create, None),
        (create_many, None),
        (change(target_url=BANNED), TARGET),
        (change(expires_at=None), BANNED),
    ],
)
def test_no_link_to_a_banned_domain_is_followed_once_the_ban_has_returned(
    interleave: Interleave, beside: Process, target_url: str | None
) -> None:
    def make_link() -> None:
        if target_url:
            operations.create(target_url, key="a")

    interleave(
        ban_and_follow,
        beside,
        setup=make_link,
        invariant=no_link_leads_there,
        expected=(TargetBanned, LinksRefused, Gone),
    )


def test_no_hit_is_counted_once_the_ban_has_returned(
    interleave: Interleave,
) -> None:
    def ban_and_read_hits() -> int:
        bans.ban(["banned.example"])
        return ShortUrl.objects.get().hits

    def none_is_counted_later(outcomes: list[Outcome]) -> None:
        assert ShortUrl.objects.get().hits == outcomes[0].returned

    interleave(
        ban_and_read_hits,
        follow,
        setup=partial(operations.create, BANNED, key="a"),
        invariant=none_is_counted_later,
        expected=Gone,
    )


def test_the_owner_changes_the_target_to_another_one_beside_a_ban(interleave: Interleave) -> None:
    """The link does not expire, unless the ban saw the old target."""

    def ban() -> int:
        return bans.ban(["banned.example"])

    def is_live_or_was_banned_before(outcomes: list[Outcome]) -> None:
        expired = outcomes[0].returned
        assert ShortUrl.objects.live().exists() is (expired == 0)

    interleave(
        ban,
        change(target_url=TARGET),
        setup=partial(operations.create, BANNED, key="a"),
        invariant=is_live_or_was_banned_before,
    )
