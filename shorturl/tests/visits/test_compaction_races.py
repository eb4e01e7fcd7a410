"""Compaction while visits are recorded, and other compactions run: in every order."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import pytest
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from pytest_django import Settings

from pginterleave import Exploration, Outcome, explore
from shorturl.models import ShortUrl, VisitCount
from shorturl.models.hit_counts import ANY
from shorturl.strategies.recording_visits import upsert
from shorturl.strategies.rolling_up.batches import BATCH
from shorturl.tests.visits.test_compaction import HOUR, NOW, add, each_is_there_once, numbered
from shorturl.visits import compaction
from shorturl.visits.classification import Visit
from shorturl.visits.compaction import move
from shorturl.visits.statistics import Dimension

pytestmark = pytest.mark.django_db(transaction=True)

FIREFOX, CHROME = Visit("a.example", "Firefox"), Visit("b.example", "Chrome")
DELETES = re.compile(
    r"DELETE FROM (\S+) AS counts USING free (WHERE .+\n) +RETURNING (counts\.\*)\n"
)


def in_one_transaction(link: str, hour: datetime) -> int:
    return move(link, "h", "h", hour, hour + HOUR)


def but_for_the_devices(link: str, hour: datetime) -> int:
    return move(link, "h", "d", hour, hour + HOUR, devices="h")


def select_then_delete(link: str, hour: datetime) -> int:
    """Do the same in two statements: wrong, as what comes between is lost, or added twice."""
    kinds = VisitCount.objects.filter(short_url__key=link, starts_at=hour)
    for dimension in Dimension:
        kinds = kinds.exclude(**{dimension: ANY})
    with transaction.atomic(), connection.cursor() as cursor:
        text, changed = DELETES.subn(
            r"SELECT \3 FROM \1 AS counts, free \2", compaction.MOVE.as_string(cursor.cursor)
        )
        assert changed == 1
        found = list(kinds.values_list("pk", flat=True))
        cursor.execute(
            text.replace("FOR UPDATE SKIP LOCKED", ""),
            [link, "h", hour, hour + HOUR, False, BATCH, link, "hour", "hour", "h", "h"],
        )
        kinds.filter(pk__in=found).delete()
    return len(found)


def explored(
    way: Callable[[str, datetime], int], visits_meanwhile: int, number: int
) -> Exploration:
    def compacted() -> int:
        # The clock is looked at now: an hour may end while the orders are explored.
        return way("hot", datetime.now(UTC).replace(minute=0, second=0, microsecond=0))

    def setup() -> None:
        VisitCount.objects.all().delete()
        ShortUrl.objects.all().erase()
        ShortUrl.objects.create(id=1, key="hot", target_url="https://a.example/")
        for visit in (FIREFOX, CHROME):
            upsert.record("hot", visit)

    def exact(outcomes: list[Outcome]) -> None:
        assert [outcome.raised for outcome in outcomes] == [None] * len(outcomes)
        each_is_there_once(ShortUrl.objects.get())
        assert ShortUrl.objects.get().hits == 2 + visits_meanwhile

    return explore(
        [partial(upsert.record, "hot", FIREFOX)] * visits_meanwhile + [compacted] * number,
        setup=setup,
        invariant=exact,
        split_autocommit=True,
        reduce=True,
    )


@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("strategy", ["batches", "by_key"])
@pytest.mark.parametrize("way", [in_one_transaction, but_for_the_devices])
def test_it_meets_visits_and_another_compaction(
    way: Callable[[str, datetime], int], strategy: str, number: int, settings: Settings
) -> None:
    settings.SHORTURL_ROLLING_UP = strategy
    explored(way, 1, number).assert_safe()


def test_it_goes_past_rows_that_others_have_locked(elsewhere: CursorWrapper) -> None:
    link = ShortUrl.objects.create(key="hot", target_url="https://a.example/")
    add(link, {(NOW, numbered(number)): 1 for number in range(3)})
    elsewhere.execute("BEGIN")
    elsewhere.execute("SELECT FROM shorturl_visitcount WHERE referrer = '1.example' FOR UPDATE")
    assert move(link.key, "h", "h", NOW, NOW + HOUR) == 2
    elsewhere.execute("ROLLBACK")
    each_is_there_once(link)
    assert VisitCount.objects.count() == 1 + 2 + 4


@pytest.mark.parametrize(("visits_meanwhile", "number"), [(1, 1), (0, 2)])
def test_in_two_statements_visits_are_lost_or_counted_twice(
    visits_meanwhile: int, number: int
) -> None:
    assert not explored(select_then_delete, 0, 1).violations
    assert explored(select_then_delete, visits_meanwhile, number).violations
