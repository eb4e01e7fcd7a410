"""Hits beside changes of their link: each acknowledged hit is counted, and has its visit."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

import pytest
from django.db import connection

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave
from shorturl import following, operations
from shorturl.exceptions import Gone
from shorturl.models import ShortUrl, Visit
from shorturl.strategies.exhibits.totals import VISITS
from shorturl.strategies.recording_visits import combined
from shorturl.tests.callers import OTHER, TARGET

VISIT = Visit("news.example", "Firefox", "Linux", "Computer", "DE", is_bot=False)
HITS = {"a": 2, "b": 1}  # of each process
EXPIRED = datetime(2022, 4, 29, tzinfo=UTC)
Acknowledged = Counter[str]


def follow_together(keys: str) -> Acknowledged:
    """Count the hits of several keys as the event loop does; those of a locked key alone."""
    acknowledged = Acknowledged({key: HITS[key] for key in keys})
    with connection.cursor() as cursor:
        counted = combined.count({key: [VISIT] * HITS[key] for key in keys}, cursor)
        for key in keys:
            if key not in counted and not combined.count_one(key, [VISIT] * HITS[key], cursor):
                acknowledged[key] = follow(key)  # fewer uses are left, or none
    return acknowledged


def follow_one_by_one(keys: str) -> Acknowledged:
    return Acknowledged({key: follow(key) for key in keys})


def follow(key: str) -> int:
    """Follow a link as Django's view does, as often as it is due; return how often it was live."""
    for number in range(HITS[key]):
        with suppress(ShortUrl.DoesNotExist, Gone):
            following.follow(key, VISIT)
            continue
        return number
    return HITS[key]


both_ways = pytest.mark.parametrize("follow_all", [follow_together, follow_one_by_one])


@pytest.fixture(autouse=True)
def links(interleave: Interleave) -> None:
    ShortUrl.objects.create(key="a", target_url=TARGET)
    ShortUrl.objects.create(key="b", target_url=TARGET)


def link() -> ShortUrl:
    return ShortUrl.objects.get(key="a")


def edit() -> None:
    operations.change(ShortUrl.objects.filter(key="a"), target_url=OTHER, max_hits=10)


def expire() -> int:
    """Make the link expire, and return its hits."""
    operations.change(ShortUrl.objects.filter(key="a"), expires_at=EXPIRED)
    return link().hits


def delete() -> int:
    """Delete the link, and return its hits."""
    ShortUrl.objects.filter(key="a").delete()
    return link().hits


def assert_counted(outcomes: list[Outcome]) -> Acknowledged:
    """Check that hits and visits are those that were acknowledged; return these."""
    acknowledged = sum((outcome.returned for outcome in outcomes), Acknowledged())
    rows = ShortUrl.objects.annotate(visits=VISITS).values_list("key", "hits", "visits")
    assert [*rows] == [(key, acknowledged[key], acknowledged[key]) for key, *_ in rows]
    return acknowledged


@both_ways
def test_hits_beside_an_edit(
    interleave: Interleave, follow_all: Callable[[str], Acknowledged]
) -> None:
    """Process 1 counts hits of a and b. Process 2 locks a, and changes its target and limit.

    A statement for several keys skips a while it is locked; the next one waits for the COMMIT.
    """

    def the_edit_stays(outcomes: list[Outcome]) -> None:
        assert (link().target_url, link().max_hits) == (OTHER, 10)
        assert assert_counted(outcomes[:1]) == HITS

    interleave(partial(follow_all, "ab"), edit, invariant=the_edit_stays)


@pytest.mark.exhaustive
def test_hits_of_two_processes_beside_a_locked_link(interleave: Interleave) -> None:
    """Process 3 has locked a. Process 1 counts a and b, and process 2 b and a.

    If a statement waited for one link while it held the other, the two would wait for each other
    after the COMMIT of process 3.
    """

    def all_are_counted(outcomes: list[Outcome]) -> None:
        assert assert_counted(outcomes[:2]) == {key: 2 * number for key, number in HITS.items()}

    interleave(
        partial(follow_together, "ab"),
        partial(follow_together, "ba"),
        edit,
        invariant=all_are_counted,
    )


@both_ways
@pytest.mark.parametrize("end", [expire, delete])
def test_hits_beside_the_end_of_a_link(
    interleave: Interleave, follow_all: Callable[[str], Acknowledged], end: Callable[[], int]
) -> None:
    """Process 1 counts hits. Process 2 ends the link, and reads its hits for the bill.

    Process 1 waits for the row, and its statement looks at the newest version: no hit is counted
    after the end has been committed, and none is acknowledged that is not counted.
    """

    def none_is_counted_later(outcomes: list[Outcome]) -> None:
        assert assert_counted(outcomes[:1]) == Acknowledged(a=outcomes[1].returned, b=HITS["b"])

    interleave(partial(follow_all, "ab"), end, invariant=none_is_counted_later)


def test_hits_of_the_last_uses(interleave: Interleave) -> None:
    """Each process has two hits of a, which has three uses left.

    Process 1 counts both. The statement of process 2 finds too few uses and counts none of its
    two; then it counts one.
    """
    ShortUrl.objects.filter(key="a").update(max_hits=3)

    def three_are_counted(outcomes: list[Outcome]) -> None:
        assert assert_counted(outcomes) == {"a": 3, "b": 2}

    interleave(
        partial(follow_together, "ab"),
        partial(follow_together, "ba"),
        invariant=three_are_counted,
    )
