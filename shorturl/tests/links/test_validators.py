"""Valid and invalid target URLs. test_index.py has the answers of the form."""

import pytest
from django.core.exceptions import ValidationError
from pytest_django import Settings

from shorturl.links.validators import (
    TARGET_URL_MAX_LENGTH,
    location,
    target_host,
    validate_target_url,
    with_query,
)

ROOT = "https://example.com/"
LABEL = "a" * 63
LONGEST_HOST = f"{LABEL}.{LABEL}.{LABEL}.{'a' * 61}"  # 253 characters


@pytest.mark.parametrize(
    "target_url",
    [
        "http://example.com",
        "HTTPS://EXAMPLE.COM/A",
        "https://example.com./",
        "https://example.com:65535/",
        "https://example.com/[a]{b}|c^d`e<f>\"g'",
        "https://example.com/Größe?q=ä#ß",
        "https://xn--bcher-kva.example/",
        "https://[2001:db8::1]:8443/",
        "https://192.168.0.1/",
        "https://192.168.1/",
        "https://example.com:/",
        "https://my_bucket.storage.example/x",
        "http://wiki",
        "http://wiki:8080/page",
        f"https://{LONGEST_HOST}/",
        ROOT.ljust(TARGET_URL_MAX_LENGTH, "a"),
        ROOT + "é" * 1_330,  # 6 bytes each: 8,000
        "https://example.com/\N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER}",
    ],
)
def test_a_valid_target_url_has_a_location_in_ascii(target_url: str) -> None:
    validate_target_url(target_url)
    assert location(target_url).isascii()


@pytest.mark.parametrize(
    ("code", "target_url"),
    [
        ("too_long", ROOT.ljust(TARGET_URL_MAX_LENGTH + 1, "a")),
        ("too_long", ROOT + "é" * 1_330 + "a"),
        ("scheme", ""),
        ("scheme", "JaVaScRiPt://example.com/%0aalert(1)"),
        ("malformed", "https:///page"),
        ("credentials", "https://user@example.com/"),
        ("credentials", "https://example.com:a@example.net/"),
        ("credentials", "https://@example.com/"),
        ("malformed", "https://example.com:65536/"),
        ("malformed", "https://example.com:0/"),
        ("malformed", "https://example.com:٨٠/"),
        ("malformed", "https://[::1/"),
        ("malformed", "https://ex℀mple.com/"),
        ("malformed", "https://-example.com/"),
        ("malformed", "https://ex*mple.com/"),
        ("malformed", "https://a" + LABEL + ".example/"),
        ("malformed", f"https://{LONGEST_HOST}a/"),
        ("malformed", "https://" + "ü" * 63 + ".example/"),
        ("malformed", "https://256.0.0.1/"),
    ],
)
def test_an_invalid_target_url_is_refused_with_a_short_printable_message(
    code: str, target_url: str
) -> None:
    with pytest.raises(ValidationError) as error:
        validate_target_url(target_url)
    assert error.value.code == code
    assert len(error.value.messages[0]) < 200
    assert error.value.messages[0].isprintable()


@pytest.mark.parametrize(
    ("characters", "name"),
    [
        ("\\", "backslash"),
        (" ", "space"),
        ("\u202e", "right-to-left override"),
        ("\ufffd", "replacement character"),
        ("\x00\x07\x1f\x7f\ud800\udfff", "character U+"),
        ("\xad\u2060\u206f\ufeff\ufff9\U000e0041", ""),  # with different names
    ],
)
def test_message_names_the_character_and_where_it_is(characters: str, name: str) -> None:
    for character in characters:
        with pytest.raises(ValidationError) as error:
            validate_target_url(f"https://{character}example.com")
        assert error.value.code == "forbidden_character"
        assert f"contains a {name}" in error.value.messages[0]
        assert " at position 9: " in error.value.messages[0]
        assert error.value.messages[0].isprintable()


# Hosts, and their form in a browser; browser/test_pages.py compares them with one.
HOSTS = {
    "Example.COM": "example.com",
    "BÜCHER.example": "xn--bcher-kva.example",
    "bu\u0308cher.example": "xn--bcher-kva.example",
    "straße.de": "xn--strae-oqa.de",
    "例え.テスト": "xn--r8jz45g.xn--zckzah",
    "ｅｘａｍｐｌｅ.com": "example.com",
    "💪🏻.to": "xn--mn8h3k.to",
    "𠮷野家.example": "xn--fctt27jo60v.example",
    "my_bucket.storage.example": "my_bucket.storage.example",
    "%65xample.com": "example.com",
    "192.0.2.1": "192.0.2.1",
    "3405803785": "203.0.113.9",
    "0xcb007109": "203.0.113.9",
    "0313.0x71.9": "203.113.0.9",
    "2001:DB8:0::1": "2001:db8::1",
}


def test_hosts_are_encoded_as_a_browser_does() -> None:
    for host, encoded in HOSTS.items():
        bracketed = f"[{host}]" if ":" in host else host
        assert target_host(f"https://{bracketed}:8443/") == encoded


def test_an_ipv4_address_within_ipv6_is_that_address() -> None:
    """A browser connects to it, and a ban and ALLOWED_HOSTS name it so."""
    assert target_host("https://[::ffff:203.0.113.9]/") == "203.0.113.9"


@pytest.mark.parametrize(
    ("target_url", "query", "joined"),
    [
        ("https://example.com", "a=1", "https://example.com?a=1"),
        ("https://example.com/?", "a=1", "https://example.com/?a=1"),
        ("https://example.com/?a&", "b", "https://example.com/?a&b"),
        ("https://example.com/?a=1#f?", "b&c", "https://example.com/?a=1&b&c#f?"),
        ("https://example.com/", "\xc3\xbc", "https://example.com/?ü"),  # UTF-8, as in WSGI
        ("https://example.com/", "\xff", "https://example.com/"),  # no UTF-8
        ("https://example.com/", "a b", "https://example.com/"),
        (ROOT, "a" * 1_979, f"{ROOT}?".ljust(TARGET_URL_MAX_LENGTH, "a")),  # 2,000 characters
        (ROOT, "a" * 1_980, ROOT),  # it would have 2,001
    ],
)
def test_a_query_is_added_if_the_target_stays_valid(
    target_url: str, query: str, joined: str
) -> None:
    assert with_query(target_url, query) == joined


@pytest.mark.parametrize(
    ("request_host", "target_urls"),
    [
        ("sho.rt", "https://sho.rt/abc http://SHO.RT:80 https://sho.rt:8443/abc https://sho.rt./"),
        ("sho.rt", "https://ｓｈｏ.ｒｔ/ https://example.org/ https://www.example.org/"),
        ("127.0.0.1:8000", "http://127.0.0.1/abc http://[::1]:8000/abc http://[0::1]/abc"),
        ("127.0.0.1:8000", "http://2130706433/abc http://127.1/ http://[::ffff:127.0.0.1]:8000/"),
        ("sho.rt", "https://sho%2Ert/ https://sho.rt:/abc https://sho。rt/"),
        ("elsewhere.example:1234", "https://elsewhere.example/ https://sho.rt/"),
    ],
)
def test_a_link_may_not_lead_to_this_service_at_any_port(
    request_host: str, target_urls: str, settings: Settings
) -> None:
    """Neither to the Host of the request nor to ALLOWED_HOSTS."""
    settings.ALLOWED_HOSTS = ["sho.rt", ".example.org", "127.0.0.1", "[::1]"]
    for target_url in target_urls.split():
        with pytest.raises(ValidationError, match="is an address of this service"):
            validate_target_url(target_url, request_host)


def test_a_link_may_lead_to_a_similar_host(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["sho.rt", "127.0.0.1"]
    for host in ("sho.rt.example.com", "notsho.rt", "127.0.0.2"):
        validate_target_url(f"https://{host}/", "sho.rt")
    settings.ALLOWED_HOSTS = ["*"]
    validate_target_url("https://anywhere.example/", "sho.rt")
