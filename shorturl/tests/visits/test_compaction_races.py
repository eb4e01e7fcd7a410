"""Compaction beside visits and other compactions, in every order of their statements."""

from datetime import UTC, datetime
from functools import partial

import pytest
from django.db.backends.utils import CursorWrapper
from pytest_django import Settings

from pginterleave import Outcome, explore
from shorturl.models import ShortUrl, Visit, VisitCount
from shorturl.strategies.recording_visits import upsert
from shorturl.tests.callers import only_link
from shorturl.tests.visits.test_compaction import HOUR, NOW, add, each_is_there_once, numbered
from shorturl.visits.compaction import move

pytestmark = pytest.mark.django_db(transaction=True)

FIREFOX, CHROME = Visit("a.example", "Firefox"), Visit("b.example", "Chrome")


@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("on_citus", [False, True])
@pytest.mark.parametrize(("into", "devices"), [("h", ""), ("d", "h")])
def test_a_compaction_beside_visits_and_another_compaction(
    into: str, devices: str, on_citus: bool, number: int, settings: Settings
) -> None:
    settings.DATABASE_CITUS = on_citus

    def compacted() -> int:
        # The clock is read here, because an hour may end during the exploration.
        hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        return move("hot", "h", into, hour, hour + HOUR, devices=devices)

    def setup() -> None:
        only_link("hot", id=1)
        for visit in (FIREFOX, CHROME):
            upsert.record("hot", visit)

    def exact(outcomes: list[Outcome]) -> None:
        assert [outcome.raised for outcome in outcomes] == [None] * len(outcomes)
        each_is_there_once(ShortUrl.objects.get())
        assert ShortUrl.objects.get().hits == 2 + 1

    explore(
        [partial(upsert.record, "hot", FIREFOX), *[compacted] * number],
        setup=setup,
        invariant=exact,
    ).assert_safe()


def test_it_skips_locked_rows(elsewhere: CursorWrapper) -> None:
    link = ShortUrl.objects.create(key="hot", target_url="https://a.example/")
    add(link, {(NOW, numbered(number)): 1 for number in range(3)})
    elsewhere.execute("BEGIN")
    elsewhere.execute("SELECT FROM shorturl_visitcount WHERE referrer = '1.example' FOR UPDATE")
    assert move(link.key, "h", "h", NOW, NOW + HOUR) == 2
    elsewhere.execute("ROLLBACK")
    each_is_there_once(link)
    assert VisitCount.objects.count() == 1 + 2 + 4
