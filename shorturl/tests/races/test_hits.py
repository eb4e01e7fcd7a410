"""Hits of a link beside its other hits, and beside changes of the link.

Every order of their statements is run, and has to end as if they had run one after another.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave
from shorturl import following, operations
from shorturl.exceptions import Gone
from shorturl.models import ShortUrl, Visit
from shorturl.tests.callers import OTHER, create_link
from shorturl.tests.event_loop import count_hits

VISIT = Visit("news.example", "Firefox", "Linux", "Computer", "DE", is_bot=False)
EXPIRED = datetime(2022, 4, 29, tzinfo=UTC)


def follow_as_a_view_does() -> bool:
    """Follow the link `a`; return whether it was live."""
    with suppress(ShortUrl.DoesNotExist, Gone):
        following.follow("a", VISIT)
        return True
    return False


def follow_as_the_event_loop_does(*keys: str) -> Counter[str]:
    """Count two hits of each key that come at once; return how many were counted.

    One statement for several keys skips locked links. A skipped link then gets a statement of its
    own, which waits for the lock, and counts both hits or none. Then each hit is tried alone.
    """
    hits = [key for key in keys for _ in range(2)]
    links = count_hits(*[(key, VISIT) for key in hits])
    return Counter(key for key, link in zip(hits, links, strict=True) if link)


def follow_a() -> Counter[str]:
    return follow_as_the_event_loop_does("a")


def follow_a_and_b() -> Counter[str]:
    return follow_as_the_event_loop_does("a", "b")


def follow_b_and_a() -> Counter[str]:
    return follow_as_the_event_loop_does("b", "a")


@pytest.fixture(autouse=True)
def links(interleave: Interleave) -> None:
    for key in "ab":
        create_link(key)


def change_link(**values: object) -> int:
    """Change the link `a`, and return the hits that it has after the change."""
    operations.change(ShortUrl.objects.filter(key="a"), **values)
    return ShortUrl.objects.get(key="a").hits


def edit() -> None:
    change_link(target_url=OTHER, max_hits=10)


def expire() -> int:
    return change_link(expires_at=EXPIRED)


def delete() -> int:
    ShortUrl.objects.filter(key="a").delete()
    return ShortUrl.objects.get(key="a").hits


@pytest.mark.parametrize("follow", [follow_as_a_view_does, follow_a, follow_a_and_b])
@pytest.mark.parametrize("change", [edit, expire, delete])
def test_no_hit_is_counted_after_the_end_of_its_link(
    interleave: Interleave, follow: Callable[[], object], change: Callable[[], object]
) -> None:
    """Process 2 locks a, and edits or ends it. The statement of process 1 for several keys skips a.

    The statement for a alone waits for the COMMIT of process 2, and reads the changed row.
    """
    interleave(follow, change)


@pytest.mark.exhaustive
def test_hits_in_opposite_orders_do_not_deadlock_behind_a_locked_link(
    interleave: Interleave,
) -> None:
    """Process 3 holds a. Processes 1 and 2 skip a, and commit b before they wait for a.

    In a deadlock each process would hold a link while it waits for the other link. Process 3 has
    two steps, as each further step multiplies the schedules.
    """

    def hold_a() -> None:
        ShortUrl.objects.filter(key="a").update(target_url=OTHER)

    interleave(follow_a_and_b, follow_b_and_a, hold_a)


def test_of_four_hits_the_last_three_uses_are_counted(interleave: Interleave) -> None:
    """Each process has two hits of a, which has three uses left.

    Process 1 counts its two. Process 2 finds too few uses for two hits, and then counts one.
    """

    def check_hits(outcomes: list[Outcome]) -> str:
        answered = sum((outcome.returned for outcome in outcomes), Counter[str]())
        hits = dict(ShortUrl.objects.values_list("key", "hits"))
        is_right = answered == hits == {"a": 3, "b": 4}
        return "" if is_right else f"{hits}, and answered {dict(answered)}"

    ShortUrl.objects.filter(key="a").update(max_hits=3)
    interleave(follow_a_and_b, follow_b_and_a, invariant=check_hits)
