"""Banned domains: `manage.py ban`, refused targets, links that expire; and the preview."""

from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from django.core.management.base import CommandError
from django.test import Client
from django.utils import timezone
from pytest_django.asserts import assertContains, assertNotContains

from shorturl import bans
from shorturl.models import BannedDomain, ShortUrl
from shorturl.tests.callers import TARGET, bulk, change, create, create_link, errors, run, user
from shorturl.tests.transfer.test_link_files import transfer

BANNED = "https://www.banned.example/".ljust(70, "a")
REFUSED = f"'{BANNED[:59]}…' leads to banned.example, which is banned here: use another target"

pytestmark = pytest.mark.django_db(transaction=True)
ban = partial(run, "ban")
create_banned = partial(create_link, target_url=BANNED)


def test_the_command_bans_domains_as_browsers_read_them() -> None:
    message = "Banned: banned.example, xn--bcher-kva.example. Links that expire now: 0.\n"
    assert ban("Banned.Example.", "bücher.example") == (message, "")
    ban("banned.example")  # once more changes nothing
    assert ban("3405803785", "[2001:DB8:0::1]")[0].startswith("Banned: 2001:db8::1, 203.0.113.9.")
    ban("example")  # a target in several banned domains is always refused with the same one
    assert bans.banned_targets([BANNED]) == {BANNED: "banned.example"}
    BannedDomain.objects.get(domain="example").delete()
    banned = set(BannedDomain.objects.values_list("domain", flat=True))
    assert banned == {"banned.example", "xn--bcher-kva.example", "203.0.113.9", "2001:db8::1"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: DOMAIN"),
        (["https://a.example/b"], "'https://a.example/b' is not a domain: .* like example.com."),
        (["a.example/b"], "'a.example/b' is not a domain"),
        (["a.example:8080"], "'a.example:8080' is not a domain"),
        (["me@a.example"], "'me@a.example' is not a domain"),
    ],
)
def test_the_command_refuses_wrong_arguments(arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        ban(*arguments)


@pytest.mark.parametrize(
    ("target_url", "is_banned"),
    [
        ("https://banned.example", True),
        ("http://a.b.BANNED.example.:8080/x?y#z", True),
        ("https://Bücher.example/", True),
        ("https://192.0.2.1/", True),
        ("https://[2001:DB8::1]/", True),
        ("http://3221225985/", True),
        ("http://0xc0.0.0x201/", True),
        ("http://[::ffff:192.0.2.1]/", True),
        ("http://banned%2Eexample/", True),
        ("https://not-banned.example/", False),
        ("https://banned.example.org/", False),
        ("https://example/banned.example", False),
        ("https://192.0.2.2/", False),
        ("no web address", False),
    ],
)
def test_a_ban_finds_the_domain_of_a_target_as_a_browser_does(
    target_url: str, is_banned: bool
) -> None:
    """A link that exists expires, and a new one is refused."""
    create_link(target_url=target_url)
    domains = ["banned.example", "xn--bcher-kva.example", "192.0.2.1", "2001:db8::1"]
    expired_links = bans.ban(domains)
    assert expired_links == int(is_banned)
    assert bans.ban(domains) == 0
    assert ShortUrl.objects.live().exists() is not is_banned
    assert bool(bans.banned_targets([target_url])) is is_banned


def test_a_banned_target_is_refused_everywhere(
    client: Client, api: Client, admin_client: Client, tmp_path: Path
) -> None:
    owner = user()
    client.force_login(owner)
    mine = create_link("mine", owner=owner)
    ban("banned.example")
    target = {"target_url": BANNED}
    for answer in (create(api, target), change(api, "mine", target)):
        assert (answer.status_code, errors(answer)) == (422, {"target_url": "banned"})
        assert answer.json()["errors"][0]["message"] == f"{REFUSED}."
    several = bulk(api, {"target_url": TARGET}, target)
    assert (several.status_code, errors(several)) == (422, {"links.1.target_url": "banned"})
    assert several.json()["errors"][0]["message"] == f"{REFUSED}."
    for path in ("/", "/links/mine"):
        page = client.post(path, target)
        assertContains(page, "which is banned here: use another target.", status_code=422)
    page = admin_client.post(f"/admin/shorturl/shorturl/{mine.pk}/change/", target)
    assertContains(page, "which is banned here: use another target.", status_code=400)

    links = tmp_path / "links.csv"
    links.write_text(f"key,target_url\nold,{BANNED}\nnew,{TARGET}\n")
    imported = transfer("import_links", links)
    assert imported.errors.startswith(f"Line 2, old: {REFUSED}.\n")
    targets = dict(ShortUrl.objects.values_list("key", "target_url"))
    assert targets == dict.fromkeys(("mine", "new"), TARGET)


def test_all_links_to_a_banned_domain_but_deleted_ones_expire(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bans, "BATCH_SIZE", 2)  # of seven links
    for number in range(5):
        create_banned(f"k{number}")
    create_link("other")
    create_banned("later", expires_at=timezone.now() + timedelta(days=1))
    create_banned("gone").delete()
    create_banned("used", hits=1, max_hits=1)
    message, _ = ban("banned.example")
    assert message == "Banned: banned.example. Links that expire now: 7.\n"
    assert [link.key for link in ShortUrl.objects.live()] == ["other"]
    assertContains(client.get("/k1"), "This short URL has expired", status_code=410)
    assert client.get("/api/links/k1").json()["state"] == "expired"


def test_an_expired_link_to_a_banned_domain_is_revived_only_after_the_lift(
    client: Client, api: Client
) -> None:
    create_banned("k1")
    create_banned("used", hits=1, max_hits=1)
    ban("banned.example")
    for key in ("k1", "used"):
        for values in ({"expires_at": None}, {"expires_at": "2100-01-01T00:00Z", "max_hits": 9}):
            answer = change(api, key, values)
            assert (answer.status_code, errors(answer)) == (422, {"target_url": "banned"})
    assert change(api, "used", {"max_hits": 9}).status_code == 200
    assert client.get("/used").status_code == 410  # not used up, but still expired
    BannedDomain.objects.all().delete()
    assert client.get("/k1").status_code == 410  # until its expiry is removed
    assert change(api, "k1", {"expires_at": None}).status_code == 200
    assert client.get("/k1")["Location"] == BANNED


def test_the_preview_shows_where_a_link_leads_and_counts_nothing(client: Client) -> None:
    plain = create_link("plain", target_url="https://Bücher.example/a?b")
    create_link("once", target_url="https://example.com/secret", max_hits=1)
    page = client.get("/plain+")
    assertContains(page, "<h1>/plain leads to <bdi>xn--bcher-kva.example")
    assertContains(page, "https://Bücher.example/a?b")
    assertContains(page, f"{plain.created_at:%Y-%m-%d}")
    assertContains(client.get("/once+"), "example.com")
    assertNotContains(client.get("/once+"), "secret")
    head = client.head("/once")  # does not show the target of a link with a limit, either
    assert (head.status_code, "Location" in head) == (302, False)
    assert not ShortUrl.objects.filter(hits__gt=0).exists()
    assert client.get("/once")["Location"] == "https://example.com/secret"
    assert [client.get(f"/{key}+").status_code for key in ("once", "none")] == [410, 404]


def test_the_admin_lists_and_lifts_bans_and_names_the_command_that_adds_one(
    admin_client: Client,
) -> None:
    ban("banned.example")
    path = "/admin/shorturl/banneddomain/"
    page = admin_client.get(path)
    assertContains(page, "banned.example")
    assertContains(page, "manage.py ban DOMAIN")
    assert admin_client.post(f"{path}add/", {"domain": "other.example"}).status_code == 403
    change_page = f"{path}banned.example/change/"  # the links to the other domain would not expire
    assert admin_client.post(change_page, {"domain": "other.example"}).status_code == 403
    assert admin_client.post(f"{path}banned.example/delete/", {"post": "yes"}).status_code == 302
    assert not BannedDomain.objects.exists()
