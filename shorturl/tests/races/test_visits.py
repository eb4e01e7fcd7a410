"""Visits beside each other: hits are recorded, rolled up, read and removed at the same time.

Every order of their statements is run, and has to end as if they had run one after another, or
with what the invariant of the test asserts.
"""

from collections.abc import Callable, Iterable
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
from shorturl.strategies.exhibits.models import erase
from shorturl.strategies.rolling_up import batches
from shorturl.tests.callers import call_and_close_connection, create_link
from shorturl.tests.event_loop import count_hits
from shorturl.tests.visits.recent import BOT, NEWS, TODAY
from shorturl.visits import statistics
from shorturl.visits.ranges import Bucket, Range
from shorturl.visits.roll_up import roll_up_visits
from shorturl.visits.statistics import VisitCount

ALL_DAYS = Range(date(2000, 1, 1), date(2200, 1, 1))
LINK = ShortUrl.objects.filter(key="known")


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
    """Roll up, and do not return how many rows: either of two roll-ups may move a row."""
    roll_up_visits()


def sum_visits(counts: Iterable[VisitCount]) -> int:
    return sum(count.people + count.bots for count in counts)


def read_visits() -> set[int | None]:
    """Return the different totals that the page of the link shows: one number, if they agree."""
    shown = statistics.read(LINK, ALL_DAYS, by=Bucket.HOUR, values_of=list(Dimension), top=99)
    totals = {shown.hits, shown.recorded, shown.people + shown.bots, sum_visits(shown.periods)}
    for dimension in Dimension:
        totals.add(sum_visits(value for value in shown.values if value.dimension == dimension))
    return totals


def test_a_hit_during_a_roll_up_is_shown_once(interleave: Interleave, link: ShortUrl) -> None:
    """Process 1 begins its roll-up. Process 2 inserts a visit. Process 1 moves the older visits.

    The new visit is still in its row, and the page of process 3 adds it.
    """
    interleave(roll_up, follow, read_visits)


def each_visit_is_counted_once(_: list[Outcome]) -> None:
    """Check the totals alone: a roll-up that finds the lock taken leaves rows to the next one."""
    assert read_visits() == {ShortUrl.objects.get().hits}


def test_two_roll_ups_in_batches_count_each_visit_once(
    interleave: Interleave, link: ShortUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process 1 moves a row and commits. Process 2 gets the lock and moves the next row."""
    monkeypatch.setattr(batches, "BATCH", 1)
    interleave(roll_up, roll_up, invariant=each_visit_is_counted_once)


def test_two_roll_ups_beside_a_hit_keep_the_limit_of_values(
    interleave: Interleave, link: ShortUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day has two referrers here, of which one is `other`. Process 1 adds both. Process 3 inserts
    a hit with a new referrer. Process 2 does not get the lock. Without the lock, the statement of
    process 2 would not see the values of process 1, and add the new referrer as a third one.
    """
    monkeypatch.setattr(batches, "MAX_VALUES", 2)
    hit = partial(follow, NEWS._replace(referrer="new.example"))
    interleave(roll_up, roll_up, hit)


def test_a_visit_is_shown_once_while_its_day_becomes_a_month(
    interleave: Interleave, link: ShortUrl
) -> None:
    """Process 1 deletes the rows of the day and adds them to the month. Process 2 reads before the
    COMMIT, and sees the day.
    """
    last_day = daily_since(TODAY) - timedelta(days=1)  # of a month that is kept as a whole
    RecentVisits.objects.update(starts_at=datetime.combine(last_day, time(), UTC))
    for dimension in Dimension:  # another visit of that day was rolled up before
        DailyVisits.objects.create(short_url=link, day=last_day, dimension=dimension, people=1)
    ShortUrl.objects.update(hits=F("hits") + 1)
    interleave(roll_up, read_visits)


def test_an_erased_link_leaves_no_visits(interleave: Interleave, link: ShortUrl) -> None:
    """Otherwise the next link of that key would have them."""
    link.delete()  # marks the row, which erase() removes
    interleave(partial(erase, ShortUrl.objects.all()), roll_up)


def follow_together(*keys: str) -> None:
    """Count a hit of each key, as the event loop does with those that come at once."""
    assert None not in count_hits(*[(key, NEWS) for key in keys])


def follow_50_times(seed: int) -> None:
    """Follow links at random: 30 times one alone, and ten times two together."""
    random = Random(seed)
    for number in range(10):
        for visit in (NEWS, BOT, NEWS._replace(referrer=f"{number}.example")):
            following.follow(random.choice("abc"), visit)
        follow_together(*random.sample("abc", 2))


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
            thread.result(timeout=60)
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
