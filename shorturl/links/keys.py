"""Candidate keys, custom keys and reserved words."""

import re
import secrets
import string
from collections.abc import Iterator
from dataclasses import dataclass

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError
from django.http import HttpRequest
from django.urls import get_script_prefix

from shorturl import cluster
from shorturl.links.validators import shortened

ALPHABET = string.ascii_letters + string.digits
MAX_LENGTH = 64

# Keys of one length, before longer ones: with half of the key space taken, ten collisions in a row
# happen once in a thousand creates.
ATTEMPTS_PER_LENGTH = 10
LONGER_LENGTHS = 3

KEY_CONSTRAINT = "shorturl_shorturl_key_uk"  # whose violation is a collision

CUSTOM_KEY = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_LENGTH}}}")
KEY_PATH = re.compile(f"/({CUSTOM_KEY.pattern})")

# The first path segments of the service's pages, which a test compares with the URLs, and
# `bulk`, which takes the place of a key in /api/links/bulk.
RESERVED = frozenset(
    {
        *("account", "admin", "api", "bulk", "healthz", "lab", "links", "login", "logout"),
        *("metrics", "readyz", "static"),
    }
)


@dataclass
class Candidates:
    """Random keys, ATTEMPTS_PER_LENGTH of each length. Each iteration draws new ones."""

    lengths: range

    def __iter__(self) -> Iterator[str]:
        for length in self.lengths:
            for _ in range(ATTEMPTS_PER_LENGTH):
                yield draw(length)


def candidates(length: int | None = None) -> Candidates:
    """Return the candidate keys of one create; the first have `length`, or SHORTURL_KEY_LENGTH."""
    shortest = length or settings.SHORTURL_KEY_LENGTH
    longest = min(shortest + LONGER_LENGTHS, MAX_LENGTH)
    return Candidates(range(shortest, longest + 1))


def draw(length: int) -> str:
    while True:  # ends, because at any length hardly any key is reserved
        key = "".join(secrets.choice(ALPHABET) for _ in range(length))
        if not is_reserved(key):
            return key


def is_reserved(key: str) -> bool:
    return key.lower() in RESERVED


def key_of(path: str) -> str | None:
    """Return the key of a redirect's path; None for any other path."""
    match = KEY_PATH.fullmatch(path)
    return match[1] if match and not is_reserved(match[1]) else None


def short_url(request: HttpRequest, key: str) -> str:
    return request.build_absolute_uri(get_script_prefix()) + key


def key_of_address(text: str, host: str) -> str | None:
    """Return the key of a short URL of this host, or of its pages; None for any other text."""
    address = rf"(?:https?://)?{re.escape(host)}/({CUSTOM_KEY.pattern})(?:\W.*)?"
    match = re.fullmatch(address, text.strip(), re.IGNORECASE)
    return match[1] if match else None


def validate_custom_key(key: str) -> None:
    """Raise ValidationError unless a user may choose `key`."""
    if not CUSTOM_KEY.fullmatch(key):
        message = f"is not a valid key: use 1 to {MAX_LENGTH} letters, digits, '-' and '_'."
        raise ValidationError(f"{shortened(key)!r} {message}", code="malformed")
    if is_reserved(key):
        raise ValidationError(f"{key!r} is reserved: choose another key.", code="reserved")


def is_collision(error: IntegrityError) -> bool:
    return violates(error, KEY_CONSTRAINT)


def violates(error: IntegrityError, constraint: str) -> bool:
    """Return whether `error` is a violation of the constraint of this name.

    Both drivers name it in the diagnostics of their error, which is the cause of Django's error.
    """
    diagnostics = getattr(error.__cause__, "diag", None)
    if named := getattr(diagnostics, "constraint_name", None):
        return bool(named == constraint)
    message = getattr(diagnostics, "message_primary", None) or ""
    return cluster.names_constraint(message, constraint)
