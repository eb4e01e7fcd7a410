"""The tests of lab/exercises/reuse.py."""

import itertools
from functools import partial
from typing import Any

from django.db.models import QuerySet

from lab.exercises import reuse as exercise
from lab.exercises.tests import checking
from pginterleave.pytest_plugin import Interleave
from shorturl.models import ShortUrl
from shorturl.strategies.reusing import advisory_lock

ENDED = ({"deleted_at": checking.PAST}, {"expires_at": checking.PAST}, {"max_hits": 2, "hits": 2})
TARGETS = ("https://one.example/", "https://two.example/")
NUMBERS = itertools.count()  # of the keys of new links
DELETE = partial(ShortUrl.objects.filter(key="a").update, deleted_at=checking.PAST)


def run(reuse: Any, key: str = "", target_url: str = TARGETS[0]) -> str:
    key = key or f"key{next(NUMBERS)}"
    create = partial(ShortUrl.objects.create, key=key, target_url=target_url)
    link, is_new = reuse(target_url, owner_id=None, create=create)
    return f"returns {link.key}, {bool(is_new)}"


def pair(key: str) -> checking.Pair:
    return partial(run, exercise.reuse, key), partial(run, advisory_lock.reuse, key)


def make_links(*rows: dict[str, Any]) -> None:
    QuerySet(ShortUrl).delete()
    for key, fields in zip("ab", rows, strict=False):
        ShortUrl.objects.create(**{"key": key, "target_url": TARGETS[0], **fields})


def read_links() -> list[Any]:
    return [*ShortUrl.objects.order_by("key").values("key", "target_url")]


# The fields of the links `a` and `b` before a call: of none, of both, or of `a` alone.
BEFORE = ((), ({}, {}), *((fields, {}) for fields in ENDED), ({"target_url": TARGETS[1]},))


def test_calls_one_after_another(interleave: Interleave) -> None:
    for rows in BEFORE:
        make_links(*rows)
        text = f"two calls with the links {rows}"
        checking.check([pair("new"), pair("other")], read_links, text)
    make_links({"deleted_at": checking.PAST})
    checking.check([pair("a")], read_links, "reuse whose create fails, as its key is taken")


def test_calls_at_once(interleave: Interleave) -> None:
    first, second, third = (pair(f"new{number}") for number in (1, 2, 3))
    for number in (0, 1):
        make_links(*[{}] * number)  # with no other fields
        for other in (second, (DELETE, DELETE)):
            text = f"with {number} links, reuse at once with another call of it or a deletion"
            checking.check([first, other], read_links, text, interleave)
    make_links()
    checking.check([first, second, third], read_links, "three calls of reuse at once", interleave)
    text = "two calls in transactions at once"
    checking.check(checking.in_transactions([first, second]), read_links, text, interleave)
    for target_url in TARGETS:
        call = partial(run, exercise.reuse, target_url=target_url)
        checking.repeat_in_threads(call, times=10)
    links = read_links()
    text = f"30 calls of reuse at once for each of two targets leave {links}. Right is 2 links."
    checking.require(len(links) == 2, text)
