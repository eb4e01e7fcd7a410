"""The rules for target URLs and expiries, and the ASCII form of a target's host."""

import ipaddress
import re
import socket
import unicodedata
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import SplitResult, unquote, urlsplit

import idna
from django.core.exceptions import ValidationError
from django.http.request import split_domain_port, validate_host
from django.utils import timezone
from django.utils.encoding import iri_to_uri

# PostgreSQL stores the long columns of a row above about 2 kB in another table (TOAST), and then
# every redirect reads two tables. A URL of this length compresses to less than that, unless it is
# random or mostly outside ASCII. https://www.postgresql.org/docs/18/storage-toast.html
TARGET_URL_MAX_LENGTH = 2_000
# Bytes of a Location. A character outside ASCII is up to 12 bytes in it. Many proxies and clients
# have 8 kB for a header, and some for all headers.
LOCATION_MAX_LENGTH = 8_000

MAX_QUOTED = 60  # characters of an input that a message repeats

SCHEMES = ("http", "https")
DEFAULT_PORTS = {"http": 80, "https": 443}
# Control characters and line breaks could inject a header. Spaces end a URL. Marks of writing
# direction show another address than the one that is followed. Lone surrogates cannot be encoded.
# The replacement character stands for bytes that were not UTF-8. Browsers take a backslash for a
# slash, and other programs do not. Nobody sees the characters of the last line: they come along
# when an address is copied. Joiners and variation selectors are allowed, as emoji need them.
FORBIDDEN = re.compile(
    r"[\x00-\x20\x7f-\xa0\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffd\\"
    r"\xad\u034f\u115f\u1160\u180e\u200b\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    r"\U000e0000-\U000e007f]"
)
FORBIDDEN_NAMES = {
    "\u061c": "mark of writing direction",
    "\t": "tab",
    "\n": "line break",
    "\r": "line break",
    "\\": "backslash",
}
# A host, or an IPv6 address in brackets, with an optional port. Python and browsers read brackets
# elsewhere differently.
HOST_AND_PORT = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:]*)(:[0-9]*)?", re.IGNORECASE)
# What people type of an address: a host with a dot, and perhaps a port and a path.
WITHOUT_SCHEME = re.compile(r"[^\s/?#:@\\]+\.[^\s/?#:@\\]+(:[0-9]+)?([/?#].*)?", re.DOTALL)
HOST_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
HOST_MAX_LENGTH = 253
# Browsers read a host that ends in a number as an IPv4 address: 127.1 and 0x7f000001 are
# 127.0.0.1. https://url.spec.whatwg.org/#ends-in-a-number-checker
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
# The IPv6 addresses that end in an IPv4 address: of NAT64 (RFC 6052, RFC 8215), and "compatible"
# ones (RFC 4291).
IPV4_WITHIN = [*map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96"))]


def with_scheme(target_url: str) -> str:
    if WITHOUT_SCHEME.fullmatch(target_url):
        return f"https://{target_url}"
    return target_url


def validate_target_url(target_url: str) -> None:
    """Raise ValidationError unless a link may lead to `target_url`."""
    if len(target_url) > TARGET_URL_MAX_LENGTH:
        raise ValidationError(
            f"The target URL has {len(target_url):,} characters: "
            f"use at most {TARGET_URL_MAX_LENGTH:,}.",
            code="too_long",
        )
    if forbidden := FORBIDDEN.search(target_url):
        raise ValidationError(
            f"The target URL contains a {_name(forbidden[0])} at position {forbidden.start() + 1}: "
            "percent-encode it or leave it out.",
            code="forbidden_character",
        )
    split = _split(target_url)
    if split.scheme not in SCHEMES:
        raise ValidationError(
            f"{shortened(target_url)!r} is not a web address: start it with http:// or https://.",
            code="scheme",
        )
    if "@" in split.netloc:
        raise ValidationError(
            "The target URL contains a user name or password: leave out the part before the @.",
            code="credentials",
        )
    if not split.hostname:
        raise ValidationError(
            f"{shortened(target_url)!r} has no host: write it like https://example.com/page.",
            code="no_host",
        )
    if not HOST_AND_PORT.fullmatch(split.netloc):
        raise _no_host_name(split.netloc)
    if split.port == 0:
        raise ValidationError(
            f"{shortened(target_url)!r} names port 0, on which nothing listens: "
            "leave it out, or use 1 to 65535.",
            code="port",
        )
    labels = ascii_host(split.hostname).split(".")
    if not all(_is_encoded(label) for label in labels if label.startswith("xn--")):
        raise _no_host_name(split.hostname)
    if (length := len(location(target_url))) > LOCATION_MAX_LENGTH:
        raise ValidationError(
            f"The target URL has {length:,} bytes when it is percent-encoded: "
            f"use at most {LOCATION_MAX_LENGTH:,}.",
            code="too_long",
        )


def validate_foreign(target_url: str, own_host: str, allowed_hosts: list[str]) -> None:
    """Raise ValidationError when a valid `target_url` leads to this service, which could loop.

    `own_host` is the Host of the request, with its port if it has one.
    """
    split = _split(target_url)
    own_name, own_port = split_domain_port(own_host)
    # The same service answers at port 80 and at port 443.
    ports = {split.port or DEFAULT_PORTS[split.scheme], int(own_port or 80)}
    same_port = len(ports) == 1 or ports == {80, 443}
    names = [name for name in allowed_hosts if name != "*"] + [own_name]
    hosts = [f"[{host}]" if ":" in host else host for host in reached_hosts(target_url)]
    if same_port and any(validate_host(host, names) for host in hosts):
        raise ValidationError(
            f"{shortened(target_url)!r} is an address of this service: "
            "use the address that it leads to.",
            code="own_host",
        )


def in_utc(time: datetime) -> datetime:
    """Return a time in UTC, because PostgreSQL refuses offsets of 16 hours and more."""
    try:
        return time.astimezone(UTC)
    except OverflowError as error:
        raise ValidationError(
            f"The time {time.isoformat()} is outside the years 1 to 9999 in UTC: use another one.",
            code="year",
        ) from error


def validate_expiry(expires_at: datetime) -> datetime:
    expires_at = in_utc(expires_at)
    if expires_at <= timezone.now():
        raise ValidationError(
            f"The expiry {expires_at:%Y-%m-%d %H:%M:%S %Z} is in the past: use a later time.",
            code="past",
        )
    return expires_at


@lru_cache(maxsize=1024)  # each host is encoded several times, and many targets have the same host
def ascii_host(host: str) -> str:
    """Return `host` as a browser sends it: lower case, IDNA-encoded (UTS 46), addresses in full.

    IPv6 addresses have no brackets. Percent-encoded characters are decoded. Raises ValidationError
    for a text that is not a host.
    """
    try:
        if ":" in host and "%" not in host:
            return ipaddress.IPv6Address(host).compressed
        # idna.encode() would refuse symbols, such as emoji, that browsers and registries accept.
        labels = [
            _ascii_label(label) for label in idna.uts46_remap(unquote(host), False).split(".")
        ]
        encoded = ".".join(labels)
        if not labels[-1]:
            labels.pop()  # the empty label after a trailing dot
        if labels and NUMBER.fullmatch(labels[-1]):
            return socket.inet_ntoa(socket.inet_aton(".".join(labels)))
    except (ValueError, OSError) as error:  # idna.IDNAError is a ValueError
        raise _no_host_name(host) from error
    too_long = len(".".join(labels)) > HOST_MAX_LENGTH
    if too_long or not labels or not all(HOST_LABEL.fullmatch(label) for label in labels):
        raise _no_host_name(host)
    return encoded


def ascii_url(target_url: str) -> str:
    """Return a valid target URL with its host in ASCII; Django encodes the rest for Location."""
    split = _split(target_url)
    if split.netloc.isascii() and "%" not in split.netloc:
        return target_url
    host = ascii_host(split.hostname or "")
    netloc = host if split.port is None else f"{host}:{split.port}"
    # urlunsplit() would drop a "?" or "#" at the end.
    return target_url.replace(f"//{split.netloc}", f"//{netloc}", 1)


def location(target_url: str) -> str:
    """Return a valid target URL as it is in the Location of a redirect, which is ASCII."""
    return iri_to_uri(ascii_url(target_url))


def with_query(target_url: str, query: str) -> str:
    """Return a target URL with a query added to its own.

    `query` is as in the WSGI environ. The target is returned without it if it makes no valid target
    URL, such as one that is too long.
    """
    query = query.encode("latin-1").decode(errors="replace")
    before, mark, fragment = target_url.partition("#")
    separator = "" if before.endswith(("?", "&")) else "&" if "?" in before else "?"
    joined = f"{before}{separator}{query}{mark}{fragment}"
    try:
        validate_target_url(joined)
    except ValidationError:
        return target_url
    return joined


def target_host(target_url: str) -> str:
    """Return the host as a browser reads it, without a dot at the end; raise ValidationError."""
    return ascii_host(_split(target_url).hostname or "").removesuffix(".")


def reached_hosts(target_url: str) -> list[str]:
    """Return target_host(), and the IPv4 address that an IPv6 address stands for, if any."""
    host = target_host(target_url)
    if ":" not in host:
        return [host]
    address = ipaddress.IPv6Address(host)
    within = address.ipv4_mapped or address.sixtofour
    if not within and any(address in network for network in IPV4_WITHIN):
        within = ipaddress.IPv4Address(address.packed[-4:])
    return [host, str(within)] if within else [host]


def shortened(text: str, most: int = MAX_QUOTED) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _ascii_label(label: str) -> str:
    return label if label.isascii() else f"xn--{label.encode('punycode').decode()}"


def _is_encoded(label: str) -> bool:
    """Return whether `label` is the encoding of some label; browsers refuse any other `xn--…`."""
    try:
        meant = label.removeprefix("xn--").encode().decode("punycode")
        remapped = idna.uts46_remap(meant, False)
    except ValueError:  # idna.IDNAError is one
        return False
    return not meant.isascii() and remapped == meant and _ascii_label(meant) == label


def _split(target_url: str) -> SplitResult:
    try:
        split = urlsplit(target_url)
        _ = split.port  # parsed on demand
    except ValueError as error:
        raise ValidationError(
            f"{shortened(target_url)!r} is not a URL: {error}.", code="malformed"
        ) from error
    return split


def _no_host_name(host: str) -> ValidationError:
    return ValidationError(
        f"{shortened(host)!r} is not a host: use letters, digits, hyphens and dots, "
        "or an IP address.",
        code="host",
    )


def _name(character: str) -> str:
    if character in FORBIDDEN_NAMES:
        return FORBIDDEN_NAMES[character]
    return unicodedata.name(character, "").lower() or f"character U+{ord(character):04X}"
