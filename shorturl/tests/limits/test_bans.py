"""Banned domains: manage.py ban, refused targets, the answer of a redirect; and the preview."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import connection
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains

from shorturl import following, operations
from shorturl.limits import bans
from shorturl.models import ShortUrl
from shorturl.tests.callers import TARGET, bulk, change, create, fields, run, text
from shorturl.tests.transfer.test_link_files import transferred

BANNED = "https://www.banned.example/secret"
REFUSED = f"'{BANNED}' leads to banned.example, which is banned here: use another target"

pytestmark = pytest.mark.django_db(transaction=True)
Ban = Callable[..., tuple[str, str]]


@pytest.fixture
def ban(monkeypatch: pytest.MonkeyPatch) -> Ban:
    """Return `manage.py ban`; no list of bans is cached."""
    monkeypatch.setattr(bans, "HOLDS", -1)
    monkeypatch.setattr(bans, "known", bans.Known(frozenset(), 0))
    return partial(run, "ban")


def test_the_command_bans_lifts_and_lists(ban: Ban) -> None:
    said = "Banned: banned.example, xn--bcher-kva.example.\n"
    assert ban("Banned.Example.", "bücher.example") == ("", said)
    ban("banned.example")  # once more changes nothing
    assert ban("--lift", "bücher.example") == ("", "Lifted: xn--bcher-kva.example.\n")
    (line,) = ban("--list")[0].splitlines()
    assert line.startswith("banned.example  banned 20")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Name domains, such as example.com, or use --list alone."),
        (["banned.example", "--list"], "Name domains, such as example.com, or use --list alone."),
        (["https://a.example/b"], "'https://a.example/b' is not a domain: .* like example.com."),
        (["--lift", "a.example"], "Not banned: a.example. See `manage.py ban --list`."),
    ],
)
def test_the_command_says_what_would_be_right(ban: Ban, arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        ban(*arguments)


def test_the_host_is_parsed_as_a_browser_does() -> None:
    domains = frozenset({"banned.example", "xn--bcher-kva.example", "192.0.2.1", "2001:db8::1"})
    for target_url, is_banned in {
        "https://banned.example": True,
        "http://a.b.BANNED.example.:8080/x?y#z": True,
        "https://Bücher.example/": True,
        "https://192.0.2.1/": True,
        "https://[2001:DB8::1]/": True,
        "https://not-banned.example/": False,
        "https://banned.example.org/": False,
        "https://example/banned.example": False,
        "https://192.0.2.2/": False,
    }.items():
        assert bool(bans.banned(target_url, domains)) is is_banned, target_url
        assert (following.location_unless(domains, target_url) is None) is is_banned, target_url


def test_a_banned_target_is_refused_everywhere(
    ban: Ban, client: Client, headers: dict[str, str], tmp_path: Path
) -> None:
    client.force_login(User.objects.create_user("somebody"))
    create(client, {"target_url": TARGET, "key": "mine"})
    ban("banned.example")
    answers = [
        create(client, {"target_url": BANNED}, headers=headers),
        change(client, "mine", {"target_url": BANNED}, headers=headers),
    ]
    for answer in answers:
        assert (answer.status_code, fields(answer)) == (422, {"target_url": "banned"})
        assert answer.json()["errors"][0]["message"] == f"{REFUSED}."
    several = bulk(client, {"target_url": TARGET}, {"target_url": BANNED}, headers=headers)
    assert (several.status_code, fields(several)) == (422, {"links.1.target_url": "banned"})
    for path in ("/", "/links/mine"):
        page = client.post(path, {"target_url": BANNED})
        assertContains(page, "which is banned here: use another target.", status_code=422)
    links = tmp_path / "links.csv"
    links.write_text(f"key,target_url\nold,{BANNED}\nnew,{TARGET}\n")
    assert transferred("import_links", links)[2].startswith(f"Line 2, old: {REFUSED}.\n")
    targets = dict(ShortUrl.objects.values_list("key", "target_url"))
    assert targets == dict.fromkeys(("mine", "new"), TARGET)


def test_a_link_created_during_the_ban_leads_nowhere(ban: Ban, client: Client) -> None:
    """The ban is committed between the check and the INSERT, so the redirect checks again."""
    bans.validate_not_banned(BANNED)
    ban("banned.example")
    operations.create(BANNED, key="late")
    assertContains(client.get("/late"), "leads to a banned domain", status_code=403)
    answer = client.get("/late", headers={"accept": "application/json"})
    assert (answer.status_code, answer.json()["state"]) == (403, "banned")
    assert answer["Cache-Control"] == "private, no-store"
    assert client.head("/late").status_code == client.get("/late+").status_code == 403
    operator = User.objects.create_superuser("operator")
    client.force_login(operator)
    assertContains(client.get("/late/stats"), "banned.example is banned")
    ShortUrl.objects.update(owner=operator)
    assert " hits banned " in text(client.get("/links?state=live"))
    assertContains(client.get("/admin/shorturl/shorturl/"), '<td class="field-state">banned</td>')
    assert client.get("/api/links/late").json()["state"] == "banned"
    (listed,) = client.get("/api/links?state=live&q=banned.example").json()["items"]
    assert listed["state"] == "banned"
    assert client.get("/api/links?state=banned").status_code == 422
    ShortUrl.objects.update(expires_at="2026-01-01T00:00Z")
    assert client.get("/api/links/late").json()["state"] == "expired"  # as the redirect answers
    ShortUrl.objects.update(expires_at=None, target_url="no URL")
    assert client.get("/api/links/late").json()["state"] == "live"
    ShortUrl.objects.update(target_url=BANNED)
    ban("--lift", "banned.example")
    assert client.get("/api/links/late").json()["state"] == "live"
    assert client.get("/late")["Location"] == BANNED
    assert ShortUrl.objects.get().hits == 3  # an answer with the target counts a hit


def test_the_bans_are_read_again_when_the_cache_is_old(ban: Ban) -> None:
    ban("banned.example")
    bans.refresh()
    first = bans.known
    with pytest.raises(ValidationError, match="which is banned here"):
        bans.validate_not_banned(BANNED)
    assert bans.known.domains is first.domains  # the key of the cache of location()
    ban("--lift", "banned.example")
    bans.HOLDS = 60
    bans.refresh()
    assert bans.known.domains
    bans.HOLDS = -1
    bans.refresh()
    assert not bans.known.domains


def test_an_older_read_does_not_replace_a_newer_one(ban: Ban) -> None:
    """A ban is committed and read after an earlier read has begun and before it ends."""
    begun: list[str] = []

    def meanwhile(execute: Any, sql: str, *arguments: Any) -> Any:
        found = execute(sql, *arguments)
        if not begun:
            begun.append(sql)
            ban("banned.example")
            bans.refresh()
        return found

    with connection.execute_wrapper(meanwhile):
        bans.refresh()
    assert "banneddomain" in begun[0]
    assert bans.known.domains == {"banned.example"}


def test_the_preview_shows_where_a_link_leads_and_counts_nothing(client: Client) -> None:
    operations.create("https://Bücher.example/a?b", key="plain")
    operations.create("https://example.com/secret", key="once", max_hits=1)
    page = client.get("/plain+")
    assertContains(page, "<h1>/plain leads to <bdi>xn--bcher-kva.example</bdi></h1>")
    assertContains(page, "https://Bücher.example/a?b")
    assertContains(page, f"{ShortUrl.objects.get(key='plain').created_at:%Y-%m-%d}")
    assertContains(client.get("/once+"), "example.com")
    assertNotContains(client.get("/once+"), "secret")
    head = client.head("/once")  # does not show the target of a link with a limit, either
    assert (head.status_code, "Location" in head) == (302, False)
    assert not ShortUrl.objects.filter(hits__gt=0).exists()
    assert client.get("/once")["Location"] == "https://example.com/secret"
    assert [client.get(f"/{key}+").status_code for key in ("once", "none")] == [410, 404]
