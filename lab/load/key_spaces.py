"""Key spaces: each load run has its own, so that runs disturb neither each other nor the service.

A space called lab-x7k2m has the keys that begin with `lab-x7k2m-`, which no random key of the
service does, and the targets that begin with `https://lab-x7k2m.invalid/`, which are nobody's
(RFC 2606). A link belongs to the space that its target names, whatever its key: some strategies
make keys of their own.

A small space is full in a moment, and where it is full nobody competes for a key any more. So it
has rounds, in each of which all keys are free again: `lab-x7k2m-0-A`, `lab-x7k2m-1-A`.
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

from lab.load import own_visits
from lab.models import KeySpace
from shorturl.links import keys
from shorturl.models import IdempotencyRecord, QuotaUsage, ShortUrl, ShortUrlQuerySet

NAME = re.compile(r"lab-[a-z0-9]{5}")
RANDOM = string.ascii_lowercase + string.digits  # a host's name knows no capitals
RANDOM_LENGTH = 5
KEY = re.compile(rf"({NAME.pattern})-[0-9a-f]{{1,3}}-[{keys.ALPHABET}]+")
TARGET = r"^https://lab-[a-z0-9]{5}\.invalid/"  # PostgreSQL's regular expressions know no less
ROUNDS = 0x1000  # as three digits can say

# In characters, after the prefix. A key of the longest may still grow as every other one does.
MIN_KEY_LENGTH = 1
MAX_KEY_LENGTH = keys.MAX_LENGTH - len("lab-x7k2m-fff-") - keys.LONGER_LENGTHS

# A load run is over after a few minutes. What is older was forgotten.
FORGOTTEN_AFTER = timedelta(hours=1)


@dataclass(frozen=True)
class SpaceCandidates:
    """The candidate keys of one create in a round, as keys.candidates() has them for the service.

    Iterating draws new keys every time, the same number at the same lengths.
    """

    space: str
    length: int
    round: int = 0

    def __iter__(self) -> Iterator[str]:
        for key in keys.Candidates(self.length, self.length + keys.LONGER_LENGTHS):
            yield f"{self.space}-{self.round:x}-{key}"


def open_space(key_length: int, *, with_visits: bool = False) -> KeySpace:
    """Return a new key space; `key_length` is that of its first candidates, without the prefix.

    `with_visits` says whether it has a table of visits of its own.

    Raises ValueError for a length out of range.
    """
    if not MIN_KEY_LENGTH <= key_length <= MAX_KEY_LENGTH:
        raise ValueError(
            f"{key_length} is out of range: use {MIN_KEY_LENGTH} to {MAX_KEY_LENGTH} characters"
        )
    name = "lab-" + "".join(secrets.choice(RANDOM) for _ in range(RANDOM_LENGTH))
    # The one name in 60 million that is in use is refused by the unique constraint.
    with transaction.atomic():
        space = KeySpace.objects.create(name=name, key_length=key_length, own_visits=with_visits)
        if with_visits:
            own_visits.make(space)
    return space


def find(name: str) -> KeySpace:
    """Return the space called `name`; raise KeySpace.DoesNotExist when there is none."""
    if not NAME.fullmatch(name):
        raise KeySpace.DoesNotExist
    return KeySpace.objects.get(name=name)


@lru_cache(maxsize=100)
def remembered(name: str) -> KeySpace:
    """Return the space called `name` as find() does, but ask the database only once.

    A query before each strategy would be part of what is measured. The price is that a process
    may take a create for a space that another one has just closed: sweep() finds its link.
    """
    return find(name)


def space_of(key: str) -> KeySpace:
    """Return the remembered space that `key` is in; raise KeySpace.DoesNotExist for other keys."""
    match = KEY.fullmatch(key)
    if match is None:
        raise KeySpace.DoesNotExist
    return remembered(match[1])


def targets(name: str) -> str:
    """Return what all targets of the space called `name` begin with."""
    return f"https://{name}.invalid/"


def links(name: str) -> ShortUrlQuerySet:
    """Return the links of the space called `name`."""
    return ShortUrl.objects.filter(target_url__startswith=targets(name))


def close(space: KeySpace) -> int:
    """Remove `space` with its links, tombstones and all, and counters; return how many links."""
    with transaction.atomic():
        count = links(space.name).erase()
        IdempotencyRecord.objects.filter(caller=space.name).delete()
        QuotaUsage.objects.filter(spender__startswith=f"{space.name} ").delete()
        if space.own_visits:
            own_visits.drop(space)
        space.delete()
    remembered.cache_clear()
    return count


def sweep(older_than: timedelta = FORGOTTEN_AFTER) -> tuple[int, int]:
    """Remove the spaces opened longer ago than that, and the links whose space is gone.

    Returns the number of spaces and that of links.
    """
    forgotten = KeySpace.objects.filter(created_at__lt=timezone.now() - older_than)
    spaces = list(forgotten)
    count = sum(close(space) for space in spaces)
    living = [targets(name) for name in KeySpace.objects.values_list("name", flat=True)]
    orphans = ShortUrl.objects.filter(target_url__regex=TARGET)
    for beginning in living:
        orphans = orphans.exclude(target_url__startswith=beginning)
    without = orphans.erase()
    return len(spaces), count + without
