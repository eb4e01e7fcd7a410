"""The tests of lab/exercises/create.py."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from lab.exercises import create as exercise
from lab.exercises.tests import checking
from lab.models import Notification
from pginterleave.pytest_plugin import Interleave
from shorturl.models import ShortUrl
from shorturl.strategies.creating import on_conflict

TARGET = "https://target.example/"


def run(create: Callable[..., Any], keys: Sequence[str], kind: Any = list) -> str:
    link = create(TARGET, keys=kind(keys))
    return f"returns {link.key} to {link.target_url}" if link else f"returns {link!r}"


def pair(*arguments: Any) -> checking.Pair:
    """Return a call of the exercise, and one of a right strategy that must end alike."""
    return partial(run, exercise.create, *arguments), partial(run, on_conflict.create, *arguments)


def make_links(keys: str) -> None:
    checking.delete_rows(ShortUrl, Notification)
    for key in keys:
        deleted = datetime(2022, 4, 29, tzinfo=UTC) if key == "d" else None
        ShortUrl.objects.create(key=key, target_url=f"https://{key}.example/", deleted_at=deleted)


def links() -> list[Any]:
    texts = Notification.objects.order_by("text").values_list("text", flat=True)
    return [*ShortUrl.objects.order_by("key").values("key", "target_url"), *texts]


def test_calls_one_after_another(interleave: Interleave) -> None:
    for taken, keys in (("", "ab"), ("a", "ab"), ("ad", "adb"), ("a", "A"), ("ad", "ad"), ("", "")):
        for kind in (list, iter):
            make_links(taken)
            text = f"create with the keys {list(keys)} where {list(taken)} are taken"
            checking.check([pair(keys, kind)], links, text)


def test_two_and_three_processes(interleave: Interleave) -> None:
    for keys, processes in (("ab", 2), ("a", 2), ("abc", 3)):
        make_links("")
        text = f"{processes} times create with the keys {list(keys)}"
        checking.check_at_once(interleave, [pair(keys)] * processes, links, text)


def test_create_in_a_callers_transaction(interleave: Interleave) -> None:
    make_links("a")
    pairs = checking.in_transactions([pair("ab"), pair("a")])
    checking.check(pairs, links, "create in a transaction where the key a is taken")
    make_links("")
    pairs = checking.in_transactions([pair("ab")] * 2)
    checking.check_at_once(interleave, pairs, links, "two creates in transactions")


def test_in_threads(interleave: Interleave) -> None:
    make_links("")
    keys = [f"key{number}" for number in range(120)]
    outcomes = {*checking.run_in_threads(partial(run, exercise.create, keys), times=40)}
    created = ShortUrl.objects.count()
    text = f"120 creates at once: {len(outcomes)} different links are returned, {created} stored"
    checking.fail_unless(len(outcomes) == created == 120, f"{text}. Right is 120.")
