"""How web addresses are read, and the rules for target URLs and expiries.

An address is what browsers make of it: WHATWG's URL standard, by the library ada.
https://url.spec.whatwg.org/#url-parsing
"""

import re
import unicodedata
from datetime import UTC, datetime
from functools import lru_cache
from ipaddress import IPv6Address
from typing import NamedTuple

from ada_url import normalize_url
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http.request import split_domain_port, validate_host
from django.utils import timezone

# PostgreSQL stores the long columns of a row above about 2 kB in another table (TOAST), and then
# every redirect reads two tables. https://www.postgresql.org/docs/18/storage-toast.html
TARGET_URL_MAX_LENGTH = 2_000
LOCATION_MAX_LENGTH = 8_000  # bytes; many proxies and clients have no more for a header
HOST_MAX_LENGTH = 253
MAX_QUOTED_LENGTH = 60  # characters of an input that a message repeats

# Control characters could inject a header, spaces end a URL, nobody sees characters of format, and
# lone surrogates cannot be encoded. Emoji need joiners. Browsers take a backslash for a slash, and
# other programs do not. The replacement character stands for bytes that were not UTF-8.
FORBIDDEN_CATEGORIES = ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp")
JOINERS = "\u200c\u200d"
FORBIDDEN = "\\\ufffd"
# Most targets are of these characters alone, so nothing has to be looked up.
PLAIN = re.compile(r"[!-\[\]-~]*")
NAMES = {"\t": "tab", "\n": "line break", "\r": "line break", "\\": "backslash"}

# An address as people type it: a host with a dot, and perhaps a port and a path.
WITHOUT_SCHEME = re.compile(r"[^\s/?#:@\\]+\.[^\s/?#:@\\]+(:[0-9]*)?([/?#].*)?", re.DOTALL)
# What stands between the scheme and the path. Browsers would drop more slashes before it.
AUTHORITY = re.compile(r"https?://([^/?#]*)", re.IGNORECASE)
# An address as ada returns it.
HREF = re.compile(r"https?://(?P<user>[^/@]*@)?(?P<host>\[[^]]*\]|[^/:]*)(:(?P<port>[0-9]+))?/")
MAX_PARSED = 4_000  # addresses in a cache: a create reads one three times, and a redirect its own
# A name in DNS, where a label has at most 63 characters (RFC 1035), with underscores.
HOST_NAME = re.compile(r"((?!-)[a-z0-9_-]{1,63}(?<!-)(\.|\Z))+")


class Address(NamedTuple):
    """A web address as browsers read it."""

    href: str  # in ASCII
    user: str  # with a password and an @, or ""
    host: str  # as bans have it: without brackets, and without a dot at its end
    port: str  # "" for that of the scheme


def validate_target_url(target_url: str, own_host: str = "") -> None:
    """Raise ValidationError unless a link may lead to `target_url`.

    A link that leads to this service could loop, so its hosts are refused, with any port: those of
    ALLOWED_HOSTS, and `own_host`, the Host of the request.
    """
    refuse_long(len(target_url), "characters", TARGET_URL_MAX_LENGTH)
    if not PLAIN.fullmatch(target_url):
        refuse_forbidden(target_url)
    authority = AUTHORITY.match(target_url)
    if not authority:
        message = "is not a web address: start it with http:// or https://."
        raise ValidationError(f"{shortened(target_url)!r} {message}", code="scheme")
    if "@" in authority[1]:
        message = (
            "The target URL contains a user name or password: leave out the part before the @."
        )
        raise ValidationError(message, code="credentials")
    address = parse(target_url)
    if not authority[1] or not has_valid_host(address):
        raise no_web_address(target_url)
    refuse_long(len(address.href), "bytes when it is percent-encoded", LOCATION_MAX_LENGTH)
    names = [name for name in settings.ALLOWED_HOSTS if name != "*"]
    if own_host:
        names.append(split_domain_port(own_host)[0])
    host = address.host
    if validate_host(f"[{host}]" if ":" in host else host, names):
        message = "is an address of this service: use the address that it leads to."
        raise ValidationError(f"{shortened(target_url)!r} {message}", code="own_host")


def clean_target_url(target_url: str, own_host: str) -> str:
    """Return a target URL with its scheme; raise the errors of validate_target_url()."""
    if WITHOUT_SCHEME.fullmatch(target_url):
        target_url = f"https://{target_url}"
    validate_target_url(target_url, own_host)
    return target_url


def refuse_long(length: int, unit: str, max_length: int) -> None:
    if length > max_length:
        message = f"The target URL has {length:,} {unit}: use at most {max_length:,}."
        raise ValidationError(message, code="too_long")


def refuse_forbidden(target_url: str) -> None:
    for position, character in enumerate(target_url, 1):
        if is_forbidden(character):
            where = f"a {name_of(character)} at position {position}"
            message = f"The target URL contains {where}: percent-encode it or leave it out."
            raise ValidationError(message, code="forbidden_character")


@lru_cache(MAX_PARSED)
def parse(url: str) -> Address:
    """Return a web address as browsers read it; raise ValidationError for any other text.

    Its host is as a browser looks it up: in lower case and in punycode, and a number as the IPv4
    address that it stands for.
    """
    try:
        href = normalize_url(url)
    except ValueError as error:
        raise no_web_address(url) from error
    parts = HREF.match(href)
    if not parts:
        raise no_web_address(url)
    host = parts["host"].removesuffix(".")
    if host.startswith("["):
        address = IPv6Address(host.strip("[]"))
        host = str(address.ipv4_mapped or address)  # both lead to the same server
    return Address(href, parts["user"] or "", host, parts["port"] or "")


def target_host(target_url: str) -> str:
    """Return the host to which a target leads, as bans have it; raise ValidationError."""
    return parse(target_url).host


def location(target_url: str) -> str:
    """Return a target as the Location of a redirect has it; raise ValidationError."""
    return parse(target_url).href


def has_valid_host(address: Address) -> bool:
    """Return whether DNS can have the host, and browsers open the port."""
    host = address.host
    is_name = HOST_NAME.fullmatch(host) and len(host) <= HOST_MAX_LENGTH
    return bool(is_name or ":" in host) and address.port != "0"


def is_forbidden(character: str) -> bool:
    return character in FORBIDDEN or (
        unicodedata.category(character) in FORBIDDEN_CATEGORIES and character not in JOINERS
    )


def name_of(character: str) -> str:
    name = NAMES.get(character) or unicodedata.name(character, "").lower()
    return name or f"character U+{ord(character):04X}"


def in_utc(time: datetime) -> datetime:
    """Return a time in UTC, because PostgreSQL refuses offsets of 16 hours and more."""
    try:
        return time.astimezone(UTC)
    except OverflowError as error:
        message = "is outside the years 1 to 9999 in UTC: use another time."
        raise ValidationError(f"The time {time.isoformat()} {message}", code="year") from error


def validate_expiry(expires_at: datetime) -> datetime:
    expires_at = in_utc(expires_at)
    if expires_at <= timezone.now():
        message = f"The expiry {expires_at:%Y-%m-%d %H:%M:%S %Z} is in the past: use a later time."
        raise ValidationError(message, code="past")
    return expires_at


def with_query(target_url: str, query: str) -> str:
    """Return a target URL with a query of the WSGI environ added.

    The target is returned as it is if the two make no valid target URL.
    """
    query = query.encode("latin-1").decode(errors="replace").replace("\\", "%5C")
    before, mark, fragment = target_url.partition("#")
    separator = "" if before.endswith(("?", "&")) else "&" if "?" in before else "?"
    joined = f"{before}{separator}{query}{mark}{fragment}"
    try:
        validate_target_url(joined)
    except ValidationError:
        return target_url
    return joined


def shortened(text: str, max_length: int = MAX_QUOTED_LENGTH) -> str:
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def no_web_address(text: str) -> ValidationError:
    message = "is not a web address: write it like https://example.com/page."
    return ValidationError(f"{shortened(text)!r} {message}", code="malformed")
