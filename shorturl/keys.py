"""Candidate keys: their alphabet, their lengths, and the words that can never be one."""

import re
import secrets
import string
from collections.abc import Iterator
from dataclasses import dataclass

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError

from shorturl.validators import shortened

ALPHABET = string.ascii_letters + string.digits
MAX_LENGTH = 20

# At one length this many keys are drawn before longer ones follow. With half of the key space
# taken, ten collisions in a row happen once in a thousand creates; the eleventh key is longer and
# its space 62 times as large.
ATTEMPTS_PER_LENGTH = 10
LONGER_LENGTHS = 3

# The name of the unique constraint, which is how a collision is told from any other violation.
KEY_CONSTRAINT = "shorturl_shorturl_key_uk"

CUSTOM_KEY = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_LENGTH}}}")
KEY_PATH = re.compile(f"/({CUSTOM_KEY.pattern})")

# The first path segments that the service itself answers, which checks.py compares with the URLs,
# and `bulk`, which is at the place of a key in /api/links/bulk.
RESERVED = frozenset(
    {
        *("admin", "api", "bulk", "healthz", "lab", "links", "login", "logout", "metrics"),
        *("readyz", "static"),
    }
)


@dataclass(frozen=True)
class Candidates:
    """Random keys to try, in order: `attempts` at each length, from `shortest` to `longest`.

    Iterating draws new keys every time, the same number at the same lengths.
    """

    shortest: int
    longest: int
    attempts: int = ATTEMPTS_PER_LENGTH

    @property
    def plan(self) -> dict[int, int]:
        """How many keys of which length."""
        return dict.fromkeys(range(self.shortest, self.longest + 1), self.attempts)

    def __iter__(self) -> Iterator[str]:
        for length, attempts in self.plan.items():
            for _ in range(attempts):
                yield draw(length)


def candidates(length: int | None = None) -> Candidates:
    """Return the candidate keys of one create, a bounded number, shortest first.

    `length` is that of the first ones, in characters; by default SHORTURL_KEY_LENGTH.
    """
    shortest = length or settings.SHORTURL_KEY_LENGTH
    return Candidates(shortest, min(shortest + LONGER_LENGTHS, MAX_LENGTH))


def draw(length: int) -> str:
    """Return one random key of `length` characters that is not a reserved word."""
    while True:  # ends: at any length nearly every key is no reserved word
        key = "".join(secrets.choice(ALPHABET) for _ in range(length))
        if not is_reserved(key):
            return key


def is_reserved(key: str) -> bool:
    """Return whether `key` is, in any mixture of cases, a path that the service itself answers."""
    return key.lower() in RESERVED


def key_of(path: str) -> str | None:
    """Return the key that a request with this path follows; None for any other path."""
    match = KEY_PATH.fullmatch(path)
    return match[1] if match and not is_reserved(match[1]) else None


def validate_custom_key(key: str) -> None:
    """Raise ValidationError, saying what would be right, unless a user may choose `key`."""
    if not CUSTOM_KEY.fullmatch(key):
        raise ValidationError(
            f"{shortened(key)!r} is not a valid key: "
            f"use 1 to {MAX_LENGTH} letters, digits, '-' and '_'.",
            code="malformed",
        )
    if is_reserved(key):
        raise ValidationError(f"{key!r} is reserved: choose another key.", code="reserved")


def is_collision(error: IntegrityError) -> bool:
    """Return whether `error` says that the key is taken, and not that something else is wrong."""
    return violates(error, KEY_CONSTRAINT)


def violates(error: IntegrityError, constraint: str) -> bool:
    """Return whether it is the constraint of this name that was violated.

    Both psycopg2 and psycopg 3 name it in the diagnostics of their own error, which Django keeps as
    the cause. An error that Citus passes on from another node has the name in its message alone,
    and there most names end with the number of a shard. The rest of it is in that node's language.
    """
    diagnostics = getattr(error.__cause__, "diag", None)
    if named := getattr(diagnostics, "constraint_name", None):
        return bool(named == constraint)
    message = getattr(diagnostics, "message_primary", None) or ""
    return re.search(rf"(?<!\w){re.escape(constraint)}(_[0-9]+)?(?!\w)", message) is not None
