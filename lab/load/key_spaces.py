"""Key spaces: each load run has its own, so that runs disturb neither each other nor the service.

A space called lab-x7k2m has the keys that begin with `lab-x7k2m-`, which no random key of the
service does. Its targets begin with `https://lab-x7k2m.invalid/`, a domain that cannot exist
(RFC 2606). The target decides which space a link belongs to, because some strategies make keys
without the prefix.

A small space is soon full, and processes no longer compete for its keys. So it has rounds, and in
each round all keys are free again: `lab-x7k2m-0-A`, `lab-x7k2m-1-A`.
"""

import re
import secrets
import string
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

from django.db import transaction
from django.utils import timezone

from lab.models import KeySpace
from shorturl.links import keys
from shorturl.models import IdempotencyRecord, QuotaUsage, ShortUrl, ShortUrlQuerySet
from shorturl.strategies.exhibits.models import erase

NAME = re.compile(r"lab-[a-z0-9]{5}")  # lower case, as in a host's name
KEY = re.compile(rf"({NAME.pattern})-[0-9a-f]{{1,3}}-[{keys.ALPHABET}]+")
TARGET = r"^https://lab-[a-z0-9]{5}\.invalid/"  # the form for PostgreSQL
ROUNDS = 0x1000  # three hexadecimal digits

# In characters, without the prefix. More than these no load run fills up.
MIN_KEY_LENGTH = 1
MAX_KEY_LENGTH = 3

# A load run takes a few minutes. An older space was left behind.
FORGOTTEN_AFTER = timedelta(hours=1)


@dataclass(frozen=True)
class SpaceCandidates:
    """The candidate keys of one create in a round, as many and as long as keys.candidates() has.

    Each iteration draws new keys.
    """

    space: KeySpace
    round: int = 0

    def __iter__(self) -> Iterator[str]:
        length = self.space.key_length
        for key in keys.Candidates(length, length + keys.LONGER_LENGTHS):
            yield f"{self.space.name}-{self.round:x}-{key}"


def open_space(key_length: int) -> KeySpace:
    """Return a new key space; `key_length` is that of its first candidates, without the prefix.

    Raises ValueError for a length out of range.
    """
    if not MIN_KEY_LENGTH <= key_length <= MAX_KEY_LENGTH:
        raise ValueError(
            f"{key_length} is out of range: use {MIN_KEY_LENGTH} to {MAX_KEY_LENGTH} characters"
        )
    letters = string.ascii_lowercase + string.digits
    # The unique constraint refuses a name that is in use, one of 60 million.
    name = "lab-" + "".join(secrets.choice(letters) for _ in range(5))
    return KeySpace.objects.create(name=name, key_length=key_length)


def find(name: str) -> KeySpace:
    """Return the space called `name`; raise KeySpace.DoesNotExist if there is none."""
    if not NAME.fullmatch(name):
        raise KeySpace.DoesNotExist
    return KeySpace.objects.get(name=name)


@lru_cache(maxsize=100)
def remembered(name: str) -> KeySpace:
    """Return the space called `name` as find() does, but query the database only once.

    A query before each strategy would be measured with it. The price: a process can create a link
    in a space that another process has just closed. sweep() removes this link.
    """
    return find(name)


def space_of(key: str) -> KeySpace:
    """Return the remembered space that `key` is in; raise KeySpace.DoesNotExist for other keys."""
    match = KEY.fullmatch(key)
    if match is None:
        raise KeySpace.DoesNotExist
    return remembered(match[1])


def targets(name: str) -> str:
    """Return the prefix of all targets of the space called `name`."""
    return f"https://{name}.invalid/"


def links(name: str) -> ShortUrlQuerySet:
    return ShortUrl.objects.filter(target_url__startswith=targets(name))


def close(space: KeySpace) -> int:
    """Remove `space` with its links, tombstones and counters; return the number of links."""
    with transaction.atomic():
        count = erase(links(space.name))
        IdempotencyRecord.objects.filter(caller=space.name).delete()
        QuotaUsage.objects.filter(spender__startswith=f"{space.name} ").delete()
        space.delete()
    remembered.cache_clear()
    return count


def sweep(older_than: timedelta = FORGOTTEN_AFTER) -> tuple[int, int]:
    """Remove the spaces that were opened longer ago, and links without a space.

    Returns the number of spaces and the number of links.
    """
    forgotten = [*KeySpace.objects.filter(created_at__lt=timezone.now() - older_than)]
    count = sum(close(space) for space in forgotten)
    orphans = ShortUrl.objects.filter(target_url__regex=TARGET)
    for name in KeySpace.objects.values_list("name", flat=True):
        orphans = orphans.exclude(target_url__startswith=targets(name))
    return len(forgotten), count + erase(orphans)
