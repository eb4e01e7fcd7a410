"""The classification of a visit by headers and address, and the limit on the number of kinds."""

from pathlib import Path
from time import time

import pytest
from django.core.checks import run_checks
from django.db.models import Sum
from django.test import Client
from pytest_django import Settings

from shorturl import following, operations
from shorturl.models import RecordedVisits, Visit
from shorturl.models.hit_counts import ANY
from shorturl.visits import cardinality, geoip
from shorturl.visits.cardinality import CardinalityLimit
from shorturl.visits.classification import families_of, kind_of, referrer_of, valid_host, visit_of

WINDOWS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/129.0.0.0 Safari/537.36"
)
IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 "
    "(KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1"
)
IPAD = IPHONE.replace("iPhone; CPU iPhone OS", "iPad; CPU OS")
TABLET = (
    "Mozilla/5.0 (Linux; Android 13; SM-X906C) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/112.0.0.0 Safari/537.36"
)
FIREFOX_OS = "Mozilla/5.0 (Tablet; rv:26.0) Gecko/26.0 Firefox/26.0"
TELEVISION = "Mozilla/5.0 (SMART-TV; Linux; Tizen 6.0) AppleWebKit/538.1 Version/6.0 TV Safari"
COMPATIBLE, OTHER_BOT = "Mozilla/5.0 (compatible; {})", ("Other", "Other", "Other", True)
GOOGLEBOT = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"


@pytest.mark.parametrize(
    ("user_agent", "families"),
    [
        (WINDOWS, ("Chrome", "Windows", "Computer", False)),
        (IPHONE, ("Safari", "iOS", "Phone", False)),
        (IPAD, ("Safari", "iOS", "Tablet", False)),
        (TABLET, ("Chrome", "Android", "Tablet", False)),
        (FIREFOX_OS, ("Firefox", "Other", "Tablet", False)),
        (TELEVISION, ("Other", "Tizen", "Other", False)),
        (GOOGLEBOT, ("Googlebot", "Other", "Other", True)),
        ("curl/8.5.0", ("curl", "Other", "Other", True)),
        (f"{WINDOWS} SkypeUriPreview Preview/0.5", ("Other", "Windows", "Other", True)),
        (COMPATIBLE.format("ms-office; MSOffice 16"), OTHER_BOT),
        (COMPATIBLE.format("vkShare; +http://vk.com/dev/Share"), OTHER_BOT),
        (COMPATIBLE.format("Embedly/0.2; +http://support.embed.ly/"), OTHER_BOT),
        (COMPATIBLE.format("Bluesky Cardyb/1.1; +mailto:support@bsky.app"), OTHER_BOT),
        (TABLET.replace("SM-X906C", "CUBOT TAB 50"), ("Chrome", "Android", "Tablet", False)),
        ("Mozilla/5.0 (x)", ("Other", "Other", "Other", False)),
        ("\x00\xff" * 300, ("Other", "Other", "Other", True)),
        ("", ("", "", "", True)),
    ],
)
def test_the_families_of_a_user_agent(
    user_agent: str, families: tuple[str, str, str, bool]
) -> None:
    assert families_of(user_agent) == families


LONG = ".".join(["a" * 63] * 3) + "." + "a" * 61  # 253 characters


@pytest.mark.parametrize(
    ("header", "referrer"),
    [
        ("", ""),
        ("https://News.Example/a/b?c=d#e", "news.example"),
        ("http://user:secret@news.example:8080/", "news.example"),
        ("android-app://com.example.mail/", "com.example.mail"),
        ("https://user@news.example?secret=2", "news.example"),
        ("https://news.example./", "news.example"),
        (f"https://{LONG}/", LONG),
        (f"https://{LONG}a/", "other"),
        (f"https://{'a' * 100_000}", "other"),
        ("https://" + "a/" * 100_000, "a"),
        ("/" * 100_000, "other"),
        ("https://[::1]/", "other"),
        ("https://b\xc3\xbccher.example/", "other"),
        ("https://a\x00b/", "other"),
        ("https:///", "other"),
        ("news.example", "other"),
        ("javascript:alert(1)", "other"),
        ("other", "other"),
    ],
)
def test_the_host_of_a_referrer_is_kept(header: str, referrer: str) -> None:
    assert referrer_of(header) == referrer
    # Without a User-Agent it is a bot.
    assert visit_of({"HTTP_REFERER": header}, with_country=False) == Visit(referrer)


def test_the_caches_keep_the_host_of_a_referrer_alone() -> None:
    kind_of.cache_clear()
    valid_host.cache_clear()

    def remember(referrer: str) -> None:
        environ = {"HTTP_REFERER": referrer, "HTTP_USER_AGENT": WINDOWS}
        visit_of(environ, with_country=False)

    for path in ("", "/", "/a?secret=1", "/b#c", "?secret=2", "#secret", ":8000/a"):
        remember(f"https://news.example{path}")
    remember("https://name:secret@news.example/")
    assert (kind_of.cache_info().currsize, valid_host.cache_info().currsize) == (1, 1)
    for no_host in ("news.example/reset/secret", "/reset/secret", "secret"):
        remember(no_host)
    assert (kind_of.cache_info().currsize, valid_host.cache_info().currsize) == (2, 1)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cardinality, "MOST_OF_A_LINK", 3)
    monkeypatch.setattr(following, "kinds", CardinalityLimit())


@pytest.mark.django_db
@pytest.mark.usefixtures("few")
def test_a_new_kind_beyond_the_limit_is_other(client: Client) -> None:
    operations.create("https://example.com/", key="spring")
    for agent, number in ((WINDOWS, 1), (WINDOWS, 2), ("curl/8", 1), (WINDOWS, 1), ("", 2)):
        headers = {"Referer": f"https://{number}.example/", "User-Agent": agent}
        client.get("/spring", headers=headers)
    for number in range(9):
        client.get("/spring", headers={"Referer": f"https://more{number}.example/"})
    shown = RecordedVisits.objects.values_list("referrer", "browser", "is_bot").order_by()
    assert set(shown.annotate(Sum("hits"))) == {
        ("1.example", "Chrome", False, 2),
        ("2.example", "Chrome", False, 1),
        ("1.example", "curl", True, 1),
        ("other", "Other", True, 10),
    }


@pytest.mark.usefixtures("few")
def test_each_link_and_each_hour_has_a_separate_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, new = CardinalityLimit(), Visit("new")
    for host in ("a", "b", "c"):
        seen.add("one", Visit(host))
    assert seen.bounded("one", new) == Visit("other", "Other", "Other", "Other", is_bot=True)
    assert seen.bounded("one", Visit("a")) == Visit("a")
    assert seen.bounded("two", new) == new
    next_hour = (time() // 3600 + 1) * 3600
    monkeypatch.setattr("shorturl.visits.cardinality.time.time", lambda: next_hour)
    assert seen.bounded("one", new) == new


@pytest.mark.usefixtures("few")
def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later links do not make room for more kinds of earlier ones."""
    monkeypatch.setattr(cardinality, "MOST", 4)
    limit = CardinalityLimit()
    recorded = set()
    for again in range(2):
        for number in range(10):
            for host in (f"a{again}", f"b{again}"):
                visit = limit.bounded(f"{number}", Visit(host))
                limit.add(f"{number}", visit)
                recorded.add((number, visit))
    assert len(limit.seen) == 4
    assert len(recorded) == 4 + 10  # with one OTHER for each link


def encoded(value: object) -> bytes:
    """Return a value as MaxMind's format has it (https://maxmind.github.io/MaxMind-DB/)."""
    if isinstance(value, dict):
        items = b"".join(encoded(key) + encoded(item) for key, item in value.items())
        return bytes([7 << 5 | len(value)]) + items
    if isinstance(value, str):
        return bytes([2 << 5 | len(value.encode())]) + value.encode()
    assert isinstance(value, bytes)  # as it is
    return value


def number(value: int) -> bytes:
    return bytes([5 << 5 | 2]) + value.to_bytes(2, "big")


def written(directory: Path, kind: str = "Test-Country", country: str = "DE") -> Path:
    """Write a tree of one node: addresses whose first bit is 0 are in the country."""
    nodes = 1
    tree = (nodes + 16).to_bytes(3, "big") + nodes.to_bytes(3, "big")
    about: dict[str, object] = {
        "node_count": bytes([6 << 5 | 4]) + nodes.to_bytes(4, "big"),
        "record_size": number(24),
        "ip_version": number(4),
        "binary_format_major_version": number(2),
        "binary_format_minor_version": number(0),
        "build_epoch": bytes([8, 2]) + (1_700_000_000).to_bytes(8, "big"),
        "database_type": kind,
        "languages": b"\x01\x04" + encoded("en"),  # an array
        "description": {"en": "of a test"},
    }
    data = encoded({"country": {"iso_code": country}})
    path = directory / "countries.mmdb"
    path.write_bytes(tree + bytes(16) + data + b"\xab\xcd\xefMaxMind.com" + encoded(about))
    return path


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("GeoLite2-Country", ""),
        ("GeoIP2-City-Europe", ""),
        ("DBIP-Country-Lite", ""),
        ("GeoLite2-ASN", "its type is GeoLite2-ASN"),
    ],
)
def test_a_database_without_countries_is_refused(
    kind: str, problem: str, tmp_path: Path, settings: Settings
) -> None:
    settings.SHORTURL_GEOIP = str(written(tmp_path, kind))
    assert geoip.problem() == problem


def test_the_country_of_an_address(tmp_path: Path, settings: Settings) -> None:
    settings.SHORTURL_GEOIP = str(written(tmp_path))
    for address, country in {"1.2.3.4": "DE", "200.1.1.1": "", "::1": "", "x": "", "": ""}.items():
        assert visit_of({"REMOTE_ADDR": address}, with_country=True).country == country, address
    assert geoip.problem() == ""
    settings.PROXY_CLIENT_ADDRESS = True
    environ = {"REMOTE_ADDR": "200.1.1.1", "HTTP_X_FORWARDED_FOR": "200.1.1.1, 1.2.3.4"}
    assert visit_of(environ, with_country=True).country == "DE"


@pytest.mark.parametrize("country", [ANY, 2 * ANY, f"D{ANY}", "", "DEU", "ÄÖ"])
def test_an_invalid_country_is_unknown(country: str, tmp_path: Path, settings: Settings) -> None:
    settings.SHORTURL_GEOIP = str(written(tmp_path, country=country))
    assert visit_of({"REMOTE_ADDR": "1.2.3.4"}, with_country=True).country == ""


def test_a_file_that_cannot_be_read_is_a_check_error_and_no_500(
    tmp_path: Path, settings: Settings
) -> None:
    broken = tmp_path / "broken.mmdb"
    broken.write_text("nothing")
    for path in (broken, tmp_path / "missing.mmdb"):
        settings.SHORTURL_GEOIP = str(path)
        assert [each.id for each in run_checks()] == ["shorturl.E004"]
        assert visit_of({"REMOTE_ADDR": "1.2.3.4"}, with_country=True).country == ""
