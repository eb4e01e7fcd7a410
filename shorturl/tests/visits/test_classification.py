"""The classification of a visit by headers and address."""

import subprocess
import sys
from pathlib import Path

import pytest
from django.core.checks import run_checks
from pytest_django import Settings
from ua_parser.loaders import load_builtins

from shorturl.following import headers_of_visits
from shorturl.models import Visit
from shorturl.visits import geoip
from shorturl.visits.classification import (
    BOTS,
    BROWSERS,
    SYSTEMS,
    classify_user_agent,
    classify_visit,
    referrer_host,
)

ROOT = Path(__file__).resolve().parents[3]
WINDOWS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/129.0.0.0 Safari/537.36"
)
IPHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 "
    "(KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1"
)
IPAD = IPHONE.replace("iPhone; CPU iPhone OS", "iPad; CPU OS")
CHROMEBOOK = WINDOWS.replace("Windows NT 10.0; Win64; x64", "X11; CrOS x86_64 14541.0.0")
MAC = WINDOWS.replace("Windows NT 10.0; Win64; x64", "Macintosh; Intel Mac OS X 10_15_7")
TABLET = WINDOWS.replace("Windows NT 10.0; Win64; x64", "Linux; Android 13; SM-X906C")
FIREFOX_OS = "Mozilla/5.0 (Tablet; rv:26.0) Gecko/26.0 Firefox/26.0"
KAIOS = "Mozilla/5.0 (Mobile; Nokia_8110_4G; rv:48.0) Gecko/48.0 Firefox/48.0 KAIOS/2.5"
TELEVISION = "Mozilla/5.0 (SMART-TV; Linux; Tizen 6.0) AppleWebKit/538.1 Version/6.0 TV Safari"
UC_MINI = "UCWEB/2.0 (Java; U; MIDP-2.0; en-US; nokia5130c-2) U2/1.0.0 UCBrowser/8.9.0.251"
COMPATIBLE, OTHER_BOT = "Mozilla/5.0 (compatible; {})", ("Other", "Other", "Other", True)
GOOGLEBOT = COMPATIBLE.format("Googlebot/2.1; +http://www.google.com/bot.html")


@pytest.mark.parametrize(
    ("user_agent", "classification"),  # browser, system, device, is it a bot?
    [
        (WINDOWS, ("Chrome", "Windows", "Computer", False)),
        (CHROMEBOOK, ("Chrome", "ChromeOS", "Computer", False)),
        (MAC, ("Chrome", "macOS", "Computer", False)),
        (IPHONE, ("Safari", "iOS", "Phone", False)),
        (IPAD, ("Safari", "iOS", "Tablet", False)),
        (TABLET, ("Chrome", "Android", "Tablet", False)),
        (FIREFOX_OS, ("Firefox", "Other", "Tablet", False)),
        (KAIOS, ("Firefox", "KaiOS", "Phone", False)),
        (TELEVISION, ("Other", "Tizen", "Other", False)),
        (GOOGLEBOT, ("Googlebot", "Other", "Other", True)),
        (UC_MINI, ("UC Browser", "Other", "Phone", False)),
        ("Opera/9.80 (J2ME/MIDP; Opera Mini/4.2) Presto", ("Opera", "Other", "Phone", False)),
        ("Nokia5130c-2/2.0 Profile/MIDP-2.1", ("Other", "Other", "Phone", False)),
        ("Lynx/2.8.9rel.1 libwww-FM/2.14", ("Other", "Other", "Other", False)),
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
def test_a_user_agent_is_classified(
    user_agent: str, classification: tuple[str, str, str, bool]
) -> None:
    assert classify_user_agent(user_agent) == classification


def test_the_families_that_are_named_are_those_of_ua_parser() -> None:
    for name in BOTS.keys() - {"Python Requests"}:
        assert classify_user_agent(f"{name}/1.0")[0] == BOTS[name]
    families = repr(load_builtins())
    for name in {*BROWSERS, *SYSTEMS, "Python Requests"} - {"NetBSD"}:  # which is "(Free|Net)BSD"
        assert name in families


@pytest.mark.parametrize(
    "user_agent",
    [
        *(
            "BlackBerry9700/5.0",
            "SonyEricssonW995/R1EA",
            "SAMSUNG-GT-S5620/S5620",
            "LG-KU990i/V10a",
        ),
        *("Links (2.28; Linux; text)", "ELinks/0.13 (textmode; Linux; 80x24-2)", "w3m/0.5.3"),
        *("Dillo/3.0.5", "NetSurf/3.10 (Linux)"),
    ],
)
def test_a_browser_that_does_not_say_mozilla_is_no_bot(user_agent: str) -> None:
    assert not classify_user_agent(user_agent)[3]


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
def test_of_a_referrer_only_a_valid_host_is_kept(header: str, referrer: str) -> None:
    assert referrer_host(header) == referrer
    # Without a User-Agent it is a bot.
    assert classify_visit({"HTTP_REFERER": header}) == Visit(referrer)


# A database in MaxMind's format (https://maxmind.github.io/MaxMind-DB/) with a tree of one node:
# addresses whose first bit is 0 are in Germany.
COUNTRIES = (
    b"\0\0\x11\0\0\x01" + bytes(16) + b"\xe1Gcountry\xe1Hiso_codeBDE\xab\xcd\xefMaxMind.com\xe9"
    b"Jnode_count\xc4\0\0\0\x01Krecord_size\xa2\0\x18Jip_version\xa2\0\x04"
    b"[binary_format_major_version\xa2\0\x02[binary_format_minor_version\xa2\0\0"
    b"Kbuild_epoch\x08\x02\0\0\0\0eS\xf1\0Mdatabase_typePGeoLite2-Country"
    b"Ilanguages\x01\x04BenKdescription\xe1BenIof a test"
)


@pytest.fixture
def geoip_file(tmp_path: Path, settings: Settings) -> Path:
    path = tmp_path / "countries.mmdb"
    path.write_bytes(COUNTRIES)
    settings.SHORTURL_GEOIP = str(path)
    return path


def country_of(address: str, forwarded_for: str = "") -> str:
    environ = {"REMOTE_ADDR": address, "HTTP_X_FORWARDED_FOR": forwarded_for}
    return classify_visit(environ).country


@pytest.mark.parametrize(
    ("database_type", "problem"),
    [
        (b"GeoLite2-Country", ""),
        (b"GeoIP2-City-Asia", ""),
        (b"GeoIP-Enterprise", ""),
        (b"GeoLite2-ASN-2.0", "its type is GeoLite2-ASN-2.0"),
    ],
)
def test_only_a_file_with_countries_is_accepted(
    database_type: bytes, problem: str, geoip_file: Path
) -> None:
    geoip_file.write_bytes(COUNTRIES.replace(b"GeoLite2-Country", database_type))
    assert geoip.find_problem() == problem


@pytest.mark.usefixtures("geoip_file")
def test_an_address_has_a_country(settings: Settings) -> None:
    for address, country in {"1.2.3.4": "DE", "200.1.1.1": "", "::1": "", "x": "", "": ""}.items():
        assert country_of(address) == country
    assert "HTTP_X_FORWARDED_FOR" in headers_of_visits()  # which the event loop reads
    settings.BEHIND_PROXY = True  # the proxy adds the visitor's address at the end
    assert country_of("200.1.1.1", "200.1.1.1, 1.2.3.4") == "DE"


# The format has the length before a text: A is one byte, and B two. BDE is the text DE.
@pytest.mark.parametrize("country", [b"B**", b"BD*", b"AD\0", b"B\xc3\x84"])
def test_an_invalid_country_is_unknown(country: bytes, geoip_file: Path) -> None:
    geoip_file.write_bytes(COUNTRIES.replace(b"BDE", country))
    assert country_of("1.2.3.4") == ""


def test_a_file_that_cannot_be_read_is_a_check_error_and_no_500(geoip_file: Path) -> None:
    for damage, reason in (
        (lambda: geoip_file.write_text("nothing"), "MaxMind"),
        (geoip_file.unlink, "No such file or directory"),
    ):
        damage()
        (error,) = run_checks()
        assert error.id == "shorturl.E004"
        assert reason in error.msg
        assert country_of("1.2.3.4") == ""


OVERWRITE = """
import sys
from pathlib import Path
from django.conf import settings
from shorturl.visits import geoip

path = Path(sys.argv[1])
settings.configure(SHORTURL_GEOIP=str(path))
for database in (path.read_bytes(), b"", b"damaged"):
    path.write_bytes(database)
    print(geoip.country_of("1.2.3.4"))
path.unlink()
print(geoip.country_of("1.2.3.4"))
"""


def test_a_file_can_be_overwritten_while_the_service_runs(geoip_file: Path) -> None:
    """A process of its own, as the kernel ends one that reads a mapped file which was cut."""
    command = [sys.executable, "-c", OVERWRITE, str(geoip_file)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.split() == ["DE"] * 4
