"""The roll-up of recent visits moves each of them once, and loses none."""

from contextlib import closing
from datetime import UTC, datetime

import pytest
from django.db import connection, transaction

from pginterleave import Outcome, explore
from shorturl.models import RecentVisits, RecordedVisits, ShortUrl, Visit, VisitCount
from shorturl.strategies.recording_visits import combined, upsert
from shorturl.tests.callers import only_link, with_cursor
from shorturl.visits import recent
from shorturl.visits.roll_up import roll_up_visits

NEWS = Visit("news.example", "Firefox", "Linux", "Computer", "DE", is_bot=False)
BOT = Visit(browser="curl")
COLUMNS = ("short_url", "unit", *Visit._fields, "hits")


def stored() -> set[tuple[object, ...]]:
    return set(VisitCount.objects.values_list(*COLUMNS))


@pytest.mark.django_db
def test_they_are_added_to_the_hour() -> None:
    for key in "ab":
        ShortUrl.objects.create(key=key, target_url="https://a.example/")
    upsert.record("a", NEWS)
    with_cursor(combined.count_one, "a", [NEWS, BOT, NEWS])
    with_cursor(combined.count, {"a": [NEWS], "b": [BOT]})
    assert RecordedVisits.objects.count() == 1 + 3 + 2
    assert roll_up_visits(datetime.now(UTC)) == 3
    assert stored() == {("a", "h", *NEWS, 4), ("a", "h", *BOT, 1), ("b", "h", *BOT, 1)}
    assert not RecentVisits.objects.exists()
    (starts_at,) = VisitCount.objects.values_list("starts_at", flat=True).distinct()
    assert (starts_at.minute, starts_at.second, starts_at.microsecond) == (0, 0, 0)


@pytest.mark.django_db
def test_it_goes_on_until_a_batch_is_not_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "BATCH", 2)
    ShortUrl.objects.create(key="a", target_url="https://a.example/")
    for _ in range(5):
        combined.record("a", NEWS)
    assert recent.roll_up() == 5
    assert stored() == {("a", "h", *NEWS, 5)}


@pytest.mark.django_db(transaction=True)
def test_rows_that_are_locked_are_left() -> None:
    only_link("a")
    combined.record("a", NEWS)
    combined.record("a", BOT)
    with closing(connection.copy()) as other, other.cursor() as cursor, transaction.atomic():
        RecentVisits.objects.select_for_update().earliest("id")
        cursor.execute(recent.MOVE, [recent.BATCH])
        assert cursor.fetchone() == (1,)
    assert stored() == {("a", "h", *BOT, 1)}
    assert RecordedVisits.objects.count() == 2


@pytest.mark.django_db
def test_erased_links_leave_none() -> None:
    link = ShortUrl.objects.create(key="a", target_url="https://a.example/")
    combined.record("a", NEWS)
    ShortUrl.objects.filter(pk=link.pk).erase()
    assert not RecordedVisits.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_two_roll_ups_beside_a_visit_and_a_reader() -> None:
    """Whoever reads meanwhile sees as many visits as hits."""

    def setup() -> None:
        only_link("a")
        with_cursor(combined.count_one, "a", [NEWS, BOT])

    def read() -> tuple[int, int]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT hits, (SELECT sum(hits)::bigint FROM shorturl_recordedvisits) "
                "FROM shorturl_shorturl"
            )
            hits, visits = cursor.fetchone()
            return hits, visits

    def exact(outcomes: list[Outcome]) -> None:
        assert [outcome.raised for outcome in outcomes] == [None] * 4
        hits, visits = outcomes[3].returned
        assert hits == visits
        assert read() == (3, 3)

    explore(
        [recent.roll_up, recent.roll_up, lambda: combined.record("a", NEWS), read],
        setup=setup,
        invariant=exact,
    ).assert_safe()
