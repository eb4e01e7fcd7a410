"""What a target URL may be, and how its host is written in ASCII."""

import ipaddress
import re
import socket
import unicodedata
from datetime import UTC, datetime
from urllib.parse import SplitResult, urlsplit

import idna
from django.core.exceptions import ValidationError
from django.http.request import split_domain_port, validate_host
from django.utils import timezone

# PostgreSQL moves the long columns of a row past about 2 kB out of line (TOAST), and from then on
# every redirect reads two tables. A URL of this length compresses to less than that; only one of
# mere noise, or of characters outside ASCII, can still end up there. https://www.postgresql.org/docs/18/storage-toast.html
TARGET_URL_MAX_LENGTH = 2_000

# No message repeats more characters than this of an input.
MAX_QUOTED = 60

SCHEMES = ("http", "https")
DEFAULT_PORTS = {"http": 80, "https": 443}
# Control characters and line breaks, which could inject a header; spaces, which end a URL; marks
# of writing direction, which show another address than the one that is followed; lone surrogates,
# which no encoding can send; and the replacement character, which stands for bytes that were not
# UTF-8. A backslash is a slash to a browser and a letter to everything else.
FORBIDDEN = re.compile(
    r"[\x00-\x20\x7f-\xa0\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffd\\]"
)
FORBIDDEN_NAMES = {
    "\u061c": "mark of writing direction",
    "\t": "tab",
    "\n": "line break",
    "\r": "line break",
    "\\": "backslash",
}
# A host, or an IPv6 address in brackets, and perhaps a port: brackets elsewhere mean one host to
# Python and another one, or none, to a browser.
HOST_AND_PORT = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:]*)(:[0-9]*)?", re.IGNORECASE)
HOST_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
HOST_MAX_LENGTH = 253
# A host that ends in a number is an IPv4 address to a browser, and 127.1 or 0x7f000001 are ways
# to write 127.0.0.1. https://url.spec.whatwg.org/#ends-in-a-number-checker
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def validate_target_url(target_url: str) -> None:
    """Raise ValidationError, saying what would be right, unless a link may lead to `target_url`."""
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


def validate_foreign(target_url: str, own_host: str, allowed_hosts: list[str]) -> None:
    """Raise ValidationError when `target_url` leads to this service itself, which could loop.

    `target_url` is valid, `own_host` is the Host of the request, with its port if it has one, and
    `allowed_hosts` is ALLOWED_HOSTS, because the service answers under all of those names.
    """
    split = _split(target_url)
    host = ascii_host(split.hostname or "").removesuffix(".")
    own_name, own_port = split_domain_port(own_host)
    # Ports 80 and 443 are one service under two schemes.
    ports = {split.port or DEFAULT_PORTS[split.scheme], int(own_port or 80)}
    same_port = len(ports) == 1 or ports == {80, 443}
    names = [name for name in allowed_hosts if name != "*"] + [own_name]
    if same_port and validate_host(f"[{host}]" if ":" in host else host, names):
        raise ValidationError(
            f"{shortened(target_url)!r} is an address of this service: "
            "link to the page it leads to.",
            code="own_host",
        )


def in_utc(time: datetime) -> datetime:
    """Return a time in UTC, as PostgreSQL takes no offset of 16 hours; raise ValidationError."""
    try:
        return time.astimezone(UTC)
    except OverflowError as error:
        raise ValidationError(
            f"The time {time.isoformat()} is outside the years 1 to 9999 in UTC: use another one.",
            code="year",
        ) from error


def validate_expiry(expires_at: datetime) -> datetime:
    """Return it in UTC; raise ValidationError unless a link that ends then leads anywhere first."""
    expires_at = in_utc(expires_at)
    if expires_at <= timezone.now():
        raise ValidationError(
            f"The expiry {expires_at:%Y-%m-%d %H:%M:%S %Z} is in the past: use a time to come.",
            code="past",
        )
    return expires_at


def ascii_host(host: str) -> str:
    """Return `host` as a browser sends it: lower case, IDNA-encoded (UTS 46), addresses in full.

    An IPv6 address is taken and returned without its brackets. Raises ValidationError when no
    host can be called that.
    """
    try:
        if ":" in host and "%" not in host:
            return ipaddress.IPv6Address(host).compressed
        # Not idna.encode(): it refuses symbols, such as emoji, that browsers and registries accept.
        labels = [_ascii_label(label) for label in idna.uts46_remap(host, False).split(".")]
        encoded = ".".join(labels)
        if not labels[-1]:
            labels.pop()  # the root's: a trailing dot
        if labels and NUMBER.fullmatch(labels[-1]):
            return socket.inet_ntoa(socket.inet_aton(".".join(labels)))
    except (ValueError, OSError) as error:  # idna.IDNAError is a ValueError
        raise _no_host_name(host) from error
    # An empty host has no labels, and all() of none holds.
    too_long = len(".".join(labels)) > HOST_MAX_LENGTH
    if too_long or not labels or not all(HOST_LABEL.fullmatch(label) for label in labels):
        raise _no_host_name(host)
    return encoded


def ascii_url(target_url: str) -> str:
    """Return a valid target URL with its host in ASCII; Django encodes the rest for Location."""
    split = _split(target_url)
    if split.netloc.isascii():
        return target_url
    host = ascii_host(split.hostname or "")
    netloc = host if split.port is None else f"{host}:{split.port}"
    # Not urlunsplit(), which drops a "?" or "#" with nothing behind it.
    return target_url.replace(f"//{split.netloc}", f"//{netloc}", 1)


def shortened(text: str, most: int = MAX_QUOTED) -> str:
    """Return `text`, cut to at most `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _ascii_label(label: str) -> str:
    return label if label.isascii() else f"xn--{label.encode('punycode').decode()}"


def _is_encoded(label: str) -> bool:
    """Return whether a browser would have encoded some label as `label`; it refuses others."""
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
