"""The tests of lab/exercises/resolve.py."""

from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from lab.exercises import resolve as exercise
from lab.exercises.tests import checking
from pginterleave.pytest_plugin import Interleave
from shorturl.models import ShortUrl
from shorturl.strategies.resolving import update_returning

ENDED: list[Any] = [{"deleted_at": checking.PAST}, {"expires_at": checking.PAST}, {"max_hits": 2}]


def run(resolve: Any, key: str) -> str:
    return f"returns {getattr(resolve(key), 'key', None)}"


def pair(key: str = "a") -> checking.Pair:
    return partial(run, exercise.resolve, key), partial(run, update_returning.resolve, key)


def make_links(**fields: Any) -> None:
    """Make the link `b`, and the link `a` with two hits and these fields."""
    QuerySet(ShortUrl).delete()
    ShortUrl.objects.create(key="b", target_url="https://b.example/")
    ShortUrl.objects.create(key="a", **{"target_url": "https://a.example/", "hits": 2} | fields)


def read_links() -> list[Any]:
    return [*ShortUrl.objects.order_by("key").values("key", "hits", "target_url")]


def test_calls_one_after_another(interleave: Interleave) -> None:
    for fields in ({}, {"max_hits": 3}, *ENDED):
        make_links(**fields)
        for key in ("a", "a", "b", "A", "a%", ""):
            text = f"resolve({key!r}) with {fields or 'no limit'}"
            checking.check([pair(key)], read_links, text)
    make_links(max_hits=3)
    text = "resolve in transactions with one use left: twice, then an unknown key"
    pairs = checking.in_transactions([pair(), pair(), pair("unknown")])
    checking.check(pairs, read_links, text)


def test_calls_at_once(interleave: Interleave) -> None:
    for fields in ({}, {"max_hits": 3}):
        make_links(**fields)
        text = f"resolve('a') twice with {fields or 'no limit'}"
        checking.check([pair()] * 2, read_links, text, interleave)
        for changed in (*ENDED, {"target_url": "https://new.example/"}):
            edit = transaction.atomic(partial(ShortUrl.objects.filter(key="a").update, **changed))
            text = f"resolve('a') with {fields or 'no limit'} and edit({changed})"
            checking.check([pair(), (edit, edit)], read_links, text, interleave)
    make_links(max_hits=4)
    checking.check([pair()] * 3, read_links, "three resolve('a') with two uses left", interleave)
    make_links(max_hits=100)
    outcomes = checking.repeat_in_threads(partial(run, exercise.resolve, "a"), times=40)
    got, counted = outcomes.count("returns a"), ShortUrl.objects.get(key="a").hits - 2
    text = f"98 uses were left: of 120 calls at once {got} got the link, {counted} are counted."
    checking.require(got == counted <= 98, f"{text} Right is 98.")
