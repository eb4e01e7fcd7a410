"""Valid and invalid target URLs. test_bad_input.py has the answers of the form."""

import pytest
from django.core.exceptions import ValidationError

from shorturl.links.validators import (
    TARGET_URL_MAX_LENGTH,
    ascii_host,
    ascii_url,
    validate_foreign,
    validate_target_url,
    with_query,
)

LABEL = "a" * 63
LONGEST_HOST = f"{LABEL}.{LABEL}.{LABEL}.{'a' * 61}"


def test_valid() -> None:
    for target_url in (
        "http://example.com",
        "HTTPS://EXAMPLE.COM/A",
        "https://example.com./",
        "https://example.com:/",
        "https://example.com:65535/",
        "https://example.com/?q=https://user@example.net/",
        "https://example.com/a%20b%0Ac%00",
        "https://example.com/[a]{b}|c^d`e<f>\"g'",
        "https://example.com/Größe?q=ä#ß",
        "https://a_b.example.com/",
        "https://xn--bcher-kva.example/",
        "https://[2001:db8::1]:8443/",
        "https://[::ffff:192.0.2.1]/",
        f"https://{LONGEST_HOST}/",
        f"https://{LONGEST_HOST}./",
        "https://example.com/" + "a" * (TARGET_URL_MAX_LENGTH - 20),
        "https://example.com/" + "é" * 1_330,  # 6 bytes each: 8,000
        "https://example.com/\N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER}",
        "http://t%c3%bcbingen.de",
    ):
        validate_target_url(target_url)
        assert ascii_url(target_url).partition("//")[2].partition("/")[0].isascii()


@pytest.mark.parametrize(
    ("code", "target_url"),
    [
        ("too_long", "https://example.com/" + "a" * (TARGET_URL_MAX_LENGTH - 19)),
        ("too_long", "https://example.com/" + "é" * 1_330 + "a"),
        ("too_long", "https://example.com/" + "\N{GRINNING FACE}" * 666),
        ("scheme", ""),
        ("scheme", "JaVaScRiPt://example.com/%0aalert(1)"),
        ("scheme", "httpss://example.com/"),
        ("scheme", "ｈｔｔｐｓ://example.com/"),
        ("no_host", "https:///page"),
        ("no_host", "https://:443/"),
        ("credentials", "https://@example.com/"),
        ("credentials", "https://example.com@example.net/"),
        ("malformed", "https://example.com:65536/"),
        ("malformed", "https://example.com:٨٠/"),
        ("malformed", "https://[::1/"),
        ("malformed", "https://ex℀mple.com/"),
        ("malformed", "https://::1/"),
        ("host", "https://[::1%25eth0]/"),
        ("host", "https://[v1.x]/"),
        ("host", "https://./"),
        ("host", "https://.example.com/"),
        ("host", "https://example.com../"),
        ("host", "https://-example.com/"),
        ("host", "https://ex*mple.com/"),
        ("host", "https://a" + LABEL + ".example/"),
        ("host", f"https://{LONGEST_HOST}a/"),
        ("host", "https://" + "ü" * 64 + ".example/"),
        ("host", "https://%c2%ad/"),
        ("host", "https://%ff.example/"),
        ("host", "https://a%2fb.example/"),
        ("malformed", "https://%5b::1%5d/"),
        ("host", "https://%3a%3a1/"),
        ("host", "https://a%25.example/"),
        ("host", "https://ex！ample.com/"),
        ("host", "https://\ue000.example/"),
        ("host", "https://256.0.0.1/"),
        ("host", "https://example.1/"),
        # Punycode that decodes to nothing, to ASCII, or to a host with another encoding.
        ("host", "https://xn--a.example/"),
        ("host", "https://xn--ab-.example/"),
        ("host", "https://xn--wca1031k.example/"),
        ("host", "https://example.xn--0/"),
        ("port", "https://example.com:0/"),
    ],
)
def test_invalid(code: str, target_url: str) -> None:
    with pytest.raises(ValidationError) as error:
        validate_target_url(target_url)
    assert error.value.code == code
    assert len(error.value.messages[0]) < 200
    assert error.value.messages[0].isprintable()


def test_brackets_are_for_ipv6_only() -> None:
    """Older versions of Python take the text in brackets for the host; newer ones refuse it."""
    for netloc in ("ex[ample].com", "example.com[", "[::1]x", "[192.0.2.1]", "[]"):
        with pytest.raises(ValidationError):
            validate_target_url(f"https://{netloc}/")


@pytest.mark.parametrize(
    ("characters", "name"),
    [
        ("\\", "backslash"),
        (" ", "space"),
        ("\xa0", "no-break space"),
        ("\u061c", "mark of writing direction"),
        ("\u202e", "right-to-left override"),
        ("\ufffd", "replacement character"),
        ("\x00\x07\x1f\x7f\ud800\udfff", "character U+"),
        ("\u200e\u200f\u2028\u2066\u2069", ""),
        ("\u200b", "zero width space"),
        ("\xad\u034f\u115f\u1160\u180e\u2060\u206f\u3164\ufeff\uffa0\ufff9\U000e0041", ""),
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
    "example.com.": "example.com.",
    "BÜCHER.example": "xn--bcher-kva.example",
    "bu\u0308cher.example": "xn--bcher-kva.example",
    "straße.de": "xn--strae-oqa.de",
    "例え。テスト": "xn--r8jz45g.xn--zckzah",
    "ｅｘａｍｐｌｅ．com": "example.com",
    "exam\u00adple.com": "example.com",
    "☃.example": "xn--n3h.example",
    "127.1": "127.0.0.1",
    "0x7f000001": "127.0.0.1",
    "2130706433": "127.0.0.1",
    "0177.0.0.1": "127.0.0.1",
    "１２７.0.0.1": "127.0.0.1",
    "127.0.0.1.": "127.0.0.1",
    "0:0:0:0:0:0:0:1": "::1",
    "2001:DB8::0001": "2001:db8::1",
    "t%c3%bcbingen.de": "xn--tbingen-n2a.de",
    "%65xample%2Ecom": "example.com",
    "127%2e1": "127.0.0.1",
}


def test_ascii_host() -> None:
    assert {host: ascii_host(host) for host in HOSTS} == HOSTS
    for host in ("", ".", "fe80::1%eth0", "[::1]", "::1::", "a b"):
        with pytest.raises(ValidationError, match="is not a host"):
            ascii_host(host)


@pytest.mark.parametrize(
    ("target_url", "query", "joined"),
    [
        ("https://example.com", "a=1", "https://example.com?a=1"),
        ("https://example.com/?", "a=1", "https://example.com/?a=1"),
        ("https://example.com/?a=1#f?", "b&c", "https://example.com/?a=1&b&c#f?"),
        ("https://example.com/", "ü".encode().decode("latin-1"), "https://example.com/?ü"),
        ("https://example.com/", "\xff", "https://example.com/"),
        ("https://example.com/", "a b", "https://example.com/"),
        ("https://example.com/", "a" * 1_979, "https://example.com/?" + "a" * 1_979),
        ("https://example.com/", "a" * 1_980, "https://example.com/"),
    ],
)
def test_a_query_is_added_if_the_target_stays_valid(
    target_url: str, query: str, joined: str
) -> None:
    assert with_query(target_url, query) == joined


ALLOWED_HOSTS = ["sho.rt", ".example.org", "127.0.0.1", "[::1]"]


@pytest.mark.parametrize(
    ("own_host", "own", "foreign"),
    [
        (
            "sho.rt",
            "https://sho.rt/abc http://SHO.RT:80 https://sho.rt:443/abc https://sho.rt./"
            " https://ｓｈｏ.ｒｔ/ https://example.org/ https://www.example.org/",
            "https://sho.rt.example.com/ https://notsho.rt/ https://sho.rt:8443/",
        ),
        ("sho.rt:443", "http://sho.rt/abc", ""),
        ("sho.rt.", "https://sho.rt/", ""),
        (
            "127.0.0.1:8000",
            "http://127.0.0.1:8000/abc http://127.1:8000/abc http://[0:0::1]:8000/abc"
            " http://[::ffff:127.0.0.1]:8000/abc",
            "http://127.0.0.1:8001/ http://127.0.0.2:8000/",
        ),
        ("127.0.0.1:99999", "", "http://127.0.0.1/"),
        ("[::1]:8000", "http://[::1]:8000/abc", ""),
        ("[::1]", "https://127.0.0.1/abc", ""),
        ("elsewhere.example", "https://elsewhere.example/", ""),
    ],
)
def test_own_and_foreign_hosts(own_host: str, own: str, foreign: str) -> None:
    for target_url in own.split():
        validate_target_url(target_url)
        with pytest.raises(ValidationError, match="is an address of this service"):
            validate_foreign(target_url, own_host, ALLOWED_HOSTS)
    for target_url in foreign.split():
        validate_foreign(target_url, own_host, ALLOWED_HOSTS)
        validate_foreign(target_url, own_host, ["*"])
