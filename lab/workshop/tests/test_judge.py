"""The judges refuse what WORKSHOP.md says people hand in, and nothing that holds."""

import asyncio
import fcntl
import multiprocessing
import re
import threading
from collections.abc import Iterable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.cache import cache
from django.db import IntegrityError, connection, transaction
from django.db.models import F

from lab.catalogue.museum import limited_use
from lab.conftest import judged
from lab.workshop import judge as judging
from lab.workshop import wrong_solutions
from lab.workshop.python_names import warnings
from lab.workshop.solutions import resolve
from lab.workshop.submission import Submission
from project.docs import ROOT
from shorturl.models import ShortUrl

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("in_the_tests_database"),
]

TABLE = (ROOT / "WORKSHOP.md").read_text().split("## What people hand in")[1]
HANDED_IN = re.findall(r"^\| `(\w+)\.(\w+)`.*? \| `(\w+)` \| (.+) \|$", TABLE, re.MULTILINE)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("exercise", "function", "judge", "sentence"), HANDED_IN)
def test_what_people_hand_in_is_refused(
    exercise: str, function: str, judge: str, sentence: str
) -> None:
    code, said = judged(judge, f"{wrong_solutions.__name__}.{exercise}:{function}")
    assert code in (1, 2), said
    assert sentence in said


def test_the_table_has_every_wrong_solution() -> None:
    public = {
        (path.stem, name)
        for path in (ROOT / "lab" / "workshop" / "wrong_solutions").glob("*.py")
        for name in re.findall(r"^def ([a-z]\w+)", path.read_text(), re.MULTILINE)
    }
    assert {(exercise, function) for exercise, function, *_ in HANDED_IN} == public


def with_created(target_url: str, *, keys: Iterable[str]) -> ShortUrl:
    for key in keys:
        made, created = ShortUrl.objects.get_or_create(key=key, defaults={"target_url": target_url})
        if created:
            return made
    raise ShortUrl.KeySpaceExhausted(keys)


def by_recursion(target_url: str, *, keys: Iterable[str]) -> ShortUrl:
    left = iter(keys)
    key = next(left, None)
    if key is None:
        raise ShortUrl.KeySpaceExhausted([])
    try:
        with transaction.atomic():
            return ShortUrl.objects.create(key=key, target_url=target_url)
    except IntegrityError:
        return by_recursion(target_url, keys=left)


async def awaited(key: str) -> ShortUrl:
    await ShortUrl.objects.filter(key=key).aupdate(hits=F("hits") + 1)
    return await ShortUrl.objects.aget(key=key)


def asynchronous(key: str) -> ShortUrl:
    return async_to_sync(awaited)(key)


def locked_for_the_session(key: str) -> ShortUrl:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(7)")
        try:
            short_url = ShortUrl.objects.get(key=key)
            ShortUrl.objects.filter(pk=short_url.pk).update(hits=short_url.hits + 1)
        finally:
            cursor.execute("SELECT pg_advisory_unlock(7)")
    return short_url


class Merging:
    """An object that is called, and a statement that few write."""

    def __call__(self, key: str) -> ShortUrl:
        with connection.cursor() as cursor:
            cursor.execute(
                "MERGE INTO shorturl_shorturl AS target USING (SELECT %s AS key) AS asked"
                " ON target.key = asked.key WHEN MATCHED THEN UPDATE SET hits = target.hits + 1",
                [key],
            )
        return ShortUrl.objects.get(key=key)


merging = Merging()


def without_autocommit(key: str) -> ShortUrl:
    transaction.set_autocommit(False)
    try:
        short_url = ShortUrl.objects.select_for_update().get(key=key)
        short_url.hits += 1
        short_url.save(update_fields=["hits"])
        transaction.commit()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    return short_url


def the_check_decides(key: str) -> ShortUrl:
    short_url = ShortUrl.objects.live().get(key=key)
    try:
        with transaction.atomic():
            ShortUrl.objects.filter(pk=short_url.pk).update(hits=F("hits") + 1)
    except IntegrityError as error:
        raise ShortUrl.DoesNotExist(key) from error
    return short_url


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("judge", "function"),
    [
        ("toctou", "with_created"),
        ("toctou", "by_recursion"),
        ("lost_update", "asynchronous"),  # whose event loop is in a thread of its own
        ("lost_update", "locked_for_the_session"),
        ("lost_update", "without_autocommit"),
        ("lost_update", "merging"),
        ("lost_update", "lab.workshop.solutions.resolve:resolve"),
        ("last_use", "the_check_decides"),
        ("limit_raised", "the_check_decides"),
        ("last_use", "shorturl.resolving.compare_and_swap:resolve"),
        ("same_target", "shorturl.reusing.on_conflict:reuse"),
        ("deleted_target", "shorturl.reusing.serializable:reuse"),
        ("last_link", "shorturl.spending.row_lock:spend"),
        ("new_period", "shorturl.spending.reservation:spend"),
        ("given_back", "shorturl.spending.conditional_update:spend"),
    ],
)
def test_what_holds_is_not_refused(judge: str, function: str) -> None:
    code, said = judged(judge, function if ":" in function else f"{__name__}:{function}")
    assert (code, "holds. 0 of" in said) == (0, True), said


def test_a_connection_is_no_cache() -> None:
    """Both are proxies of Django's."""
    _, said = judged("same_target", "lab.workshop.wrong_solutions.reuse:lets_go_too_early")
    assert "cache" not in said


def first(key: str) -> ShortUrl:
    short_url = ShortUrl.objects.filter(key=key).first()
    short_url.hits += 1  # type: ignore[union-attr]  # the mistake
    short_url.save()  # type: ignore[union-attr]
    return short_url  # type: ignore[return-value]


def test_a_mistake_is_told_with_what_the_function_had_to_do() -> None:
    code, said = judged("lost_update", f"{__name__}:first")
    assert code == 2
    assert "has no attribute 'hits'. What it had to do: One process follows a link" in said
    assert "Look at" not in said  # a step: no step is the cause


class Counter:
    """An object with a lock of its own, as of a class that somebody has written."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


COUNTER, SHARED, EVENTS = Counter(), multiprocessing.Lock(), asyncio.Lock()


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda key: COUNTER.lock, "It uses a lock of Python's"),
        (lambda key: {key: threading.RLock()}, "It uses a lock of Python's"),
        (lambda key: SHARED, "SHARED is a lock of Python's"),
        (lambda key: EVENTS, "EVENTS is a lock of Python's"),
        (lambda key: fcntl.lockf, "A lock on a file is known to one machine"),
        (lambda key: cache, "A cache in memory, as here, is another one in each process"),
        (lambda key: connection.cursor(), ""),
    ],
)
def test_what_is_said_of_what_no_other_process_knows(function: Any, sentence: str) -> None:
    said = " ".join(warnings(function))
    assert sentence in said
    assert bool(said) is bool(sentence)


def endless(key: str) -> ShortUrl:
    while True:
        pass


def test_a_loop_without_a_statement_is_told_from_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "STEP_TIMEOUT", 1.0)
    code, said = judged("lost_update", f"{__name__}:endless")
    assert code == 2
    assert "has sent nothing to the database for 1 seconds, and has not ended." in said
    assert "and has not ended. Process 1 is in Python at" in said
    assert "Either this loop never ends, or it waits in Python" in said


def test_a_process_shares_nothing_in_python_with_another() -> None:
    """A module that defines models is not copied: Django has each model once."""
    own = Submission("lab.workshop.solutions.resolve:resolve", resolve.resolve)
    copy = own._as_another_process_has_it()
    assert copy is not own.function
    assert copy.__code__ == own.function.__code__
    museum = Submission("lab.catalogue.museum.limited_use:mended", limited_use.mended)
    assert museum._as_another_process_has_it() is museum.function
