"""Visits beside each other: hits are recorded, rolled up, read and removed at the same time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from random import Random

import pytest
from django.db.models import F, Sum

from pginterleave import Outcome
from pginterleave.pytest_plugin import Interleave
from shorturl import following
from shorturl.models import DailyVisits, Dimension, HourlyVisits, RecentVisits, ShortUrl, Visit
from shorturl.models.visits import daily_since
from shorturl.strategies.recording_visits import combined
from shorturl.strategies.rolling_up import batches
from shorturl.tests.callers import call_and_close_connection, create_link
from shorturl.tests.visits.recent import BOT, NEWS, TODAY
from shorturl.visits import statistics
from shorturl.visits.ranges import Bucket, Range
from shorturl.visits.roll_up import roll_up_visits

ALL_DAYS = Range(date(2000, 1, 1), date(2200, 1, 1))


@pytest.fixture
def link(interleave: Interleave) -> ShortUrl:
    """A link that was followed by a person and a bot, in rows that the roll-up has not moved."""
    link = create_link()
    for visit in (NEWS, BOT):
        following.follow("known", visit)
    return link


def follow(visit: Visit = NEWS) -> int:
    return following.follow("known", visit).hits


def roll_up() -> None:
    """Roll up, and return nothing: which of two roll-ups moves a row may differ."""
    roll_up_visits()


def roll_up_without_months() -> None:
    batches.roll_up()


def read_visits() -> set[int]:
    """Return the hits of the link, and its visits as the page shows them, in several ways."""
    visits = statistics.read("known", ALL_DAYS, by=Bucket.HOUR, values_of=list(Dimension), top=99)
    counts = [visits.periods]
    counts += [[row for row in visits.values if row.dimension == name] for name in Dimension]
    sums = {sum(row.people + row.bots for row in rows) for rows in counts}
    return {visits.hits, visits.recorded or 0, visits.people + visits.bots, *sums}


def test_a_hit_during_a_roll_up_is_shown_once(interleave: Interleave, link: ShortUrl) -> None:
    """Process 1 begins its roll-up. Process 2 inserts a visit. Process 1 deletes and adds the older
    rows, and commits. The visit is still in its row, and the page adds it.
    """
    interleave(roll_up, follow, read_visits)


def test_two_roll_ups_in_batches_count_a_concurrent_hit_once(
    interleave: Interleave, link: ShortUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process 1 moves a row and commits. Process 2 gets the lock and moves the next row. A hit
    inserts another row, which either of them moves, or which is left to the next roll-up.
    """
    monkeypatch.setattr(batches, "BATCH", 1)

    def each_visit_is_counted_once(outcomes: list[Outcome]) -> None:
        assert read_visits() == {ShortUrl.objects.get().hits}

    interleave(roll_up, roll_up, invariant=each_visit_is_counted_once)
    interleave(batches.roll_up, batches.roll_up, follow, invariant=each_visit_is_counted_once)


def test_two_roll_ups_keep_the_limit_of_values_together(
    interleave: Interleave, link: ShortUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process 1 adds a referrer and `other`. A hit has another referrer. Process 2 does not get the
    lock. Without the lock its statement would begin, wait for the rows that process 1 deletes, and
    then add the new referrer as the first of the day, which would have three values.
    """
    monkeypatch.setattr(batches, "MAX_VALUES", 2)
    hit = partial(follow, NEWS._replace(referrer="new.example"))
    interleave(roll_up_without_months, roll_up_without_months, hit)


def test_a_visit_is_shown_once_while_its_day_becomes_a_month(
    interleave: Interleave, link: ShortUrl
) -> None:
    """Process 1 deletes the rows of the day and adds them to the month. Process 2 reads before the
    COMMIT, and sees the day. Process 3 finds the lock taken.
    """
    old = daily_since(TODAY) - timedelta(days=1)
    RecentVisits.objects.update(starts_at=datetime.combine(old, time(), UTC))
    for dimension in Dimension:
        DailyVisits.objects.create(short_url=link, day=old, dimension=dimension, people=1)
    ShortUrl.objects.update(hits=F("hits") + 1)
    interleave(roll_up, read_visits, roll_up)


def test_an_erased_link_leaves_no_visits(interleave: Interleave, link: ShortUrl) -> None:
    """Otherwise the next link of that key would have them."""
    link.delete()
    interleave(lambda: ShortUrl.objects.all().erase(), roll_up_without_months)


def follow_both(*keys: str) -> None:
    """Count a hit of each key as the event loop does: by one statement, or by one for a key."""
    counted = combined.count_keys({key: [NEWS] for key in keys})
    for key in keys:
        assert key in counted or combined.count_key(key, [NEWS])


def follow_50_times(seed: int) -> None:
    random, hits = Random(seed), 0
    while hits < 50:
        visit = random.choice([NEWS, BOT, NEWS._replace(referrer=f"{hits}.example")])
        if hits == 49 or random.random() < 0.5:
            following.follow(random.choice("abc"), visit)
            hits += 1
        else:
            follow_both(*random.sample("abc", 2))
            hits += 2


@pytest.mark.django_db(transaction=True)
def test_400_mixed_hits_over_8_connections_are_in_hits_hours_and_days() -> None:
    """Eight threads follow three links, alone and together, while a ninth one rolls up."""
    for key in "abc":
        create_link(key)

    def roll_up_often() -> None:
        for _ in range(20):
            roll_up_visits()

    tasks: list[Callable[[], None]] = [partial(follow_50_times, seed) for seed in range(8)]
    with ThreadPoolExecutor(9) as pool:
        threads = [pool.submit(call_and_close_connection, task) for task in (*tasks, roll_up_often)]
        for thread in threads:
            thread.result(60)
    roll_up_visits()
    assert not RecentVisits.objects.exists()
    visits = Sum(F("people") + F("bots"))
    for key, hits in ShortUrl.objects.values_list("key", "hits"):
        hours = HourlyVisits.objects.filter(short_url__key=key)
        assert hours.aggregate(visits=visits) == {"visits": hits}
        for dimension in Dimension:
            days = DailyVisits.objects.filter(short_url__key=key, dimension=dimension)
            assert days.aggregate(visits=visits) == {"visits": hits}
    assert ShortUrl.objects.aggregate(hits=Sum("hits")) == {"hits": 400}
