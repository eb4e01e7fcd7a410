"""The tests of lab/exercises/reuse.py."""

import itertools
from datetime import UTC, datetime
from functools import partial
from typing import Any

from lab.exercises import reuse as exercise
from lab.exercises.tests import checking
from pginterleave.pytest_plugin import Interleave
from shorturl.models import ShortUrl
from shorturl.strategies.reusing import advisory_lock

PAST = datetime(2022, 4, 29, tzinfo=UTC)
TARGETS = ("https://one.example/", "https://two.example/")
DELETE = partial(ShortUrl.objects.filter(key="a").update, deleted_at=PAST)


def new_link(key: str, **fields: Any) -> ShortUrl:
    return ShortUrl.objects.create(key=key, **{"target_url": TARGETS[0]} | fields)


def run(reuse: Any, key: str, target_url: str = TARGETS[0]) -> str:
    create = partial(new_link, key, target_url=target_url)
    link, is_new = reuse(target_url, owner_id=None, create=create)
    return f"returns {link.key}, {bool(is_new)}"


def pair(key: str) -> checking.Pair:
    """Return a call of the exercise, and one of a right strategy that must end alike."""
    return partial(run, exercise.reuse, key), partial(run, advisory_lock.reuse, key)


def make_links(*rows: dict[str, Any]) -> None:
    checking.delete_rows(ShortUrl)
    for number, fields in enumerate(rows):
        new_link("ab"[number], **fields)


def links() -> list[Any]:
    return [*ShortUrl.objects.order_by("key").values("key", "target_url")]


def test_calls_one_after_another(interleave: Interleave) -> None:
    ended = ({"deleted_at": PAST}, {"expires_at": PAST}, {"max_hits": 2, "hits": 2})
    for rows in ((), ({}, {}), *((fields, {}) for fields in ended), ({"target_url": TARGETS[1]},)):
        make_links(*rows)
        text = f"two calls of reuse with the links {rows}"
        checking.check([pair("new"), pair("other")], links, text)
    make_links({"deleted_at": PAST})
    checking.check([pair("a")], links, "reuse whose create fails, as its key is taken")


def test_two_and_three_processes(interleave: Interleave) -> None:
    two = [pair("new1"), pair("new2")]
    for number in (0, 1):
        make_links(*[{}] * number)
        text = f"two calls of reuse with {number} links"
        checking.check_at_once(interleave, two, links, text)
        text = f"reuse and a deletion with {number} links"
        checking.check_at_once(interleave, [pair("new1"), (DELETE, DELETE)], links, text)
    make_links()
    checking.check_at_once(interleave, [*two, pair("new3")], links, "three calls of reuse")


def test_reuse_in_a_callers_transaction(interleave: Interleave) -> None:
    make_links()
    two = checking.in_transactions([pair("new1"), pair("new2")])
    checking.check_at_once(interleave, two, links, "two calls of reuse in transactions")


def test_in_threads(interleave: Interleave) -> None:
    make_links()
    numbers = itertools.count()

    def call(target_url: str) -> str:
        return run(exercise.reuse, f"new{next(numbers)}", target_url)

    for target_url in TARGETS:
        checking.run_in_threads(partial(call, target_url), times=10)
    created = ShortUrl.objects.count()
    text = f"30 calls of reuse at once for each of two targets leave {created} links"
    checking.fail_unless(created == 2, f"{text}. Right is 2.")
