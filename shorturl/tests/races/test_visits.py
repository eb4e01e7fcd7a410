"""Visits beside each other: hits are recorded, rolled up, read and removed at the same time."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from functools import partial
from random import Random

import pytest
from django.db import connection
from django.utils import timezone

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave
from shorturl import following
from shorturl.models import (
    DailyVisits,
    Dimension,
    HourlyVisits,
    RecentVisits,
    ShortUrl,
    Visit,
    daily_since,
)
from shorturl.strategies.recording_visits import combined
from shorturl.strategies.rolling_up import batches
from shorturl.tests.callers import TARGET, closing_connection
from shorturl.visits import statistics
from shorturl.visits.ranges import Bucket, Range
from shorturl.visits.roll_up import roll_up_visits

NEWS = Visit("news.example", "Firefox", "Linux", "Computer", "DE", is_bot=False)
BOT = Visit(browser="curl")
ALL_DAYS = Range(date(2000, 1, 1), date(2200, 1, 1))


@pytest.fixture
def link(interleave: Interleave) -> ShortUrl:
    """A link that was followed by a person and a bot, in rows that the roll-up has not moved."""
    link = ShortUrl.objects.create(key="a", target_url=TARGET)
    for visit in (NEWS, BOT):
        following.follow("a", visit)
    return link


def follow(visit: Visit = NEWS) -> Callable[[], int]:
    return lambda: following.follow("a", visit).hits


def follow_both(*keys: str) -> None:
    """Count a hit of each key as the event loop does: by one statement, or by one for a key."""
    with connection.cursor() as cursor:
        counted = combined.count({key: [NEWS] for key in keys}, cursor)
        for key in keys:
            assert key in counted or combined.count_one(key, [NEWS], cursor)


def read_visits() -> tuple[int, ...]:
    """Return the hits of the link, and its visits as the page shows them, in several ways."""
    visits = statistics.read("a", ALL_DAYS, by=Bucket.HOUR, values_of=list(Dimension), top=99)
    by_period = sum(count.people + count.bots for count in visits.periods)
    by_dimension = Counter[str]()
    for count in visits.values:
        by_dimension[count.dimension] += count.people + count.bots
    total = visits.people + visits.bots
    return visits.hits, visits.recorded, total, by_period, *by_dimension.values()


def each_visit_is_counted_once(outcomes: list[Outcome]) -> None:
    """Check it at the end, and of what was read meanwhile; every process ends without an error."""
    for outcome in outcomes:
        assert outcome.raised is None
        if isinstance(outcome.returned, tuple):
            assert len(set(outcome.returned)) == 1
    assert read_visits() == (ShortUrl.objects.get(key="a").hits,) * 9


def test_a_hit_beside_a_roll_up(interleave: Interleave, link: ShortUrl) -> None:
    """The roll-up moves the rows that its statement sees, and leaves the others.

    Process 1 begins its roll-up. Process 2 inserts a visit. Process 1 deletes and adds the rows of
    before, and commits. The visit is still in its row, and the page adds it.
    """
    interleave(roll_up_visits, follow(), read_visits, invariant=each_visit_is_counted_once)


def test_two_roll_ups_in_batches_beside_a_hit(
    interleave: Interleave, link: ShortUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two roll-ups can take turns, a batch each.

    Process 1 moves a row and commits. Process 2 gets the lock and moves the next row. A hit
    inserts another row, which either of them moves, or which is left to the next roll-up.
    """
    monkeypatch.setattr(batches, "BATCH", 1)
    interleave(roll_up_visits, roll_up_visits, invariant=each_visit_is_counted_once)
    interleave(batches.roll_up, batches.roll_up, follow(), invariant=each_visit_is_counted_once)


def test_two_roll_ups_keep_the_limit_of_values_together(
    interleave: Interleave, link: ShortUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second roll-up sees the values that the first has committed.

    Process 1 adds a referrer and `other`. A hit has another referrer. Process 2 does not get the
    lock. Without the lock its statement would begin, wait for the rows that process 1 deletes, and
    then add the new referrer as the first of the day, which would have three values.
    """
    monkeypatch.setattr(batches, "MAX_VALUES", 2)

    def at_most_two_values(outcomes: list[Outcome]) -> None:
        each_visit_is_counted_once(outcomes)
        assert DailyVisits.objects.filter(dimension=Dimension.REFERRER).count() <= 2

    hit = follow(NEWS._replace(referrer="new.example"))
    interleave(batches.roll_up, batches.roll_up, hit, invariant=at_most_two_values)


def test_old_days_become_a_month_beside_a_reader(interleave: Interleave, link: ShortUrl) -> None:
    """The page shows a visit once while it moves from its day to its month.

    Process 1 deletes the rows of the day and adds them to the month. Process 2 reads before the
    COMMIT, and sees the day. Process 3 finds the lock taken.
    """
    old = daily_since(timezone.now().date()) - timedelta(days=1)
    RecentVisits.objects.update(starts_at=datetime(old.year, old.month, old.day, tzinfo=UTC))
    DailyVisits.objects.bulk_create(
        DailyVisits(short_url=link, day=old, dimension=dimension, people=1)
        for dimension in Dimension
    )
    ShortUrl.objects.update(hits=3)
    interleave(roll_up_visits, read_visits, roll_up_visits, invariant=each_visit_is_counted_once)


def test_a_link_is_erased_beside_a_roll_up(interleave: Interleave, link: ShortUrl) -> None:
    """A test or the lab removes links: no visit is left behind, or the next key would have it."""
    link.delete()
    interleave(lambda: ShortUrl.objects.all().erase(), batches.roll_up)


@pytest.mark.django_db(transaction=True)
def test_400_mixed_hits_over_8_connections() -> None:
    """Eight threads follow three links, alone and together, while a ninth one rolls up."""
    keys, threads, hits_of_thread = "abc", 8, 50
    for key in keys:
        ShortUrl.objects.create(key=key, target_url=TARGET)

    def follow_often(number: int) -> int:
        random, hits = Random(number), 0
        while hits < hits_of_thread:
            visit = random.choice([NEWS, BOT, NEWS._replace(referrer=f"{hits}.example")])
            if hits == hits_of_thread - 1 or random.random() < 0.5:
                following.follow(random.choice(keys), visit)
                hits += 1
            else:
                follow_both(*random.sample(keys, 2))
                hits += 2
        return hits

    with ThreadPoolExecutor(threads + 1) as pool:
        following_threads = [
            pool.submit(closing_connection, partial(follow_often, number))
            for number in range(threads)
        ]
        rolling_up = pool.submit(closing_connection, lambda: [roll_up_visits() for _ in range(20)])
        assert sum(thread.result(60) for thread in following_threads) == 400
        rolling_up.result(60)
    roll_up_visits()
    assert not RecentVisits.objects.exists()
    links = dict(ShortUrl.objects.values_list("key", "hits"))
    assert sum(links.values()) == 400
    for key, hits in links.items():
        hours = HourlyVisits.objects.filter(short_url__key=key)
        assert sum(row.people + row.bots for row in hours) == hits
        for dimension in Dimension:
            days = DailyVisits.objects.filter(short_url__key=key, dimension=dimension)
            assert sum(row.people + row.bots for row in days) == hits
