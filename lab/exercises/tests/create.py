"""The tests of lab/exercises/create.py."""

from functools import partial
from typing import Any

from django.db.models import QuerySet

from lab.exercises import create as exercise
from lab.exercises.tests import checking
from pginterleave.pytest_plugin import Interleave
from shorturl.models import ShortUrl
from shorturl.strategies.creating import on_conflict


def run(create: Any, keys: Any, make_iterable: Any = list) -> str:
    link = create("https://target.example/", keys=make_iterable(keys))
    return f"returns {link.key} to {link.target_url}" if link else f"returns {link!r}"


def pair(*arguments: Any) -> checking.Pair:
    return partial(run, exercise.create, *arguments), partial(run, on_conflict.create, *arguments)


def make_links(keys: str) -> None:
    """Make a link of each key; the link `d` is deleted, and its key stays taken."""
    QuerySet(ShortUrl).delete()
    for key in keys:
        deleted = checking.PAST if key == "d" else None
        ShortUrl.objects.create(key=key, target_url=f"https://{key}.example/", deleted_at=deleted)


def read_links() -> list[Any]:
    return [*ShortUrl.objects.order_by("key").values("key", "target_url")]


# The keys that are taken, and those that a create may try: the last two times none is free.
KEYS = (("", "ab"), ("a", "ab"), ("ad", "adb"), ("a", "A"), ("ad", "ad"), ("", ""))


def test_calls_one_after_another(interleave: Interleave) -> None:
    for taken, keys in KEYS:
        for make_iterable in (list, iter):  # keys that can be read again, or once only
            make_links(taken)
            text = f"create with the keys {list(keys)} where {list(taken)} are taken"
            checking.check([pair(keys, make_iterable)], read_links, text)
    text = "create in a transaction where the key a is taken"
    make_links("a")
    checking.check(checking.in_transactions([pair("ab"), pair("a")]), read_links, text)


def test_calls_at_once(interleave: Interleave) -> None:
    make_links("")
    for keys, processes in (("ab", 2), ("a", 2), ("abc", 3)):
        text = f"{processes} times create with the keys {list(keys)} at once"
        checking.check([pair(keys)] * processes, read_links, text, interleave)
    text = "two creates in transactions at once"
    checking.check(checking.in_transactions([pair("ab")] * 2), read_links, text, interleave)
    call = partial(run, exercise.create, [f"key{number}" for number in range(120)])
    returned = {*checking.repeat_in_threads(call, times=40)}  # in each of three threads
    counts = len(returned), ShortUrl.objects.count()
    text = f"Of 120 creates at once {counts} links are returned and stored. Right is 120 and 120."
    checking.require(counts == (120, 120), text)
