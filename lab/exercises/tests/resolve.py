"""The tests of lab/exercises/resolve.py."""

from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.db import transaction

from lab.exercises import resolve as exercise
from lab.exercises.tests import checking
from pginterleave.pytest_plugin import Interleave
from shorturl.models import ShortUrl
from shorturl.strategies.resolving import update_returning

PAST = datetime(2022, 4, 29, tzinfo=UTC)
ENDED: list[dict[str, Any]] = [{"deleted_at": PAST}, {"expires_at": PAST}, {"max_hits": 2}]
EDITS: list[dict[str, Any]] = [
    {"target_url": "https://new.example/"},
    {"deleted_at": PAST},
    {"max_hits": 2},
]


def run(resolve: Any, key: str) -> str:
    link = resolve(key)
    return f"returns {link.key}" if isinstance(link, ShortUrl) else f"returns {link!r}"


def pair(key: str) -> checking.Pair:
    """Return a call of the exercise, and one of a right strategy that must end alike."""
    return partial(run, exercise.resolve, key), partial(run, update_returning.resolve, key)


def edit(**fields: Any) -> int:
    with transaction.atomic():
        return ShortUrl.objects.filter(key="a").update(**fields)


def make_links(**fields: Any) -> None:
    checking.delete_rows(ShortUrl)
    ShortUrl.objects.create(key="b", target_url="https://b.example/")
    ShortUrl.objects.create(key="a", **{"target_url": "https://a.example/", "hits": 2} | fields)


def links() -> list[Any]:
    return [*ShortUrl.objects.order_by("key").values("key", "hits", "target_url")]


def test_calls_one_after_another(interleave: Interleave) -> None:
    for fields in ({}, {"max_hits": 3}, *ENDED):
        make_links(**fields)
        for key in ("a", "a", "b", "A", "a%", ""):
            text = f"resolve({key!r}) with {fields or 'a plain link'}"
            checking.check([pair(key)], links, text)


def test_two_and_three_processes(interleave: Interleave) -> None:
    for fields in ({}, {"max_hits": 3}):
        make_links(**fields)
        text = f"resolve('a') twice with {fields}"
        checking.check_at_once(interleave, [pair("a")] * 2, links, text)
        for changed in EDITS:
            change = partial(edit, **changed)
            text = f"resolve('a') with {fields} and edit({changed})"
            checking.check_at_once(interleave, [pair("a"), (change, change)], links, text)
    make_links(max_hits=4)
    text = "three resolve('a') with two uses left"
    checking.check_at_once(interleave, [pair("a")] * 3, links, text)


def test_resolve_in_a_callers_transaction(interleave: Interleave) -> None:
    make_links(max_hits=3)
    for key in ("a", "a", "unknown"):
        text = f"resolve({key!r}) in a transaction"
        checking.check(checking.in_transactions([pair(key)]), links, text)


def test_in_threads(interleave: Interleave) -> None:
    make_links(max_hits=100)
    outcomes = checking.run_in_threads(partial(run, exercise.resolve, "a"), times=40)
    counted = ShortUrl.objects.get(key="a").hits - 2
    answered = outcomes.count("returns a")
    text = f"98 uses were left: {answered} of 120 calls at once got the link, {counted} are counted"
    checking.fail_unless(counted == answered <= 98, f"{text}. Right is 98.")
