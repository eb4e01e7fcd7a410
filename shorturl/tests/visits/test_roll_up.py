"""Recent visits become hours and days, and old days months; each visit is counted once."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.core.management.base import CommandError
from django.db import OperationalError, connection
from django.db.backends.postgresql.psycopg_any import sql
from django.db.backends.utils import CursorWrapper
from django.db.models import F
from django.utils import timezone

from shorturl.models import DailyVisits, Dimension, HourlyVisits, RecentVisits, ShortUrl, Visit
from shorturl.models.visits import hourly_since
from shorturl.strategies.rolling_up import batches
from shorturl.tests.callers import create_link, run
from shorturl.tests.event_loop import count_hits
from shorturl.tests.visits.recent import BOT, NEWS, PERSON, TODAY, add_recent
from shorturl.visits.roll_up import roll_up_visits

pytestmark = pytest.mark.django_db

YESTERDAY = TODAY - timedelta(days=1)


def hours(key: str = "known") -> list[tuple[date, int, int, int]]:
    """Return day, hour, people and bots of each row of hours."""
    rows = HourlyVisits.objects.filter(short_url__key=key).order_by("hour")
    return [(row.hour.date(), row.hour.hour, row.people, row.bots) for row in rows]


def values(dimension: str, key: str = "known") -> list[tuple[date, str, int, int]]:
    """Return day, value, people and bots of each row of days."""
    rows = DailyVisits.objects.filter(short_url__key=key, dimension=dimension)
    return list(rows.order_by("day", "value").values_list("day", "value", "people", "bots"))


def assert_each_visit_is_counted_once() -> None:
    hits = ShortUrl.objects.get(key="known").hits
    recent = sum(len(row.kinds) for row in RecentVisits.objects.filter(short_url__key="known"))
    for dimension in Dimension:
        days = values(dimension)
        assert recent + sum(people + bots for *_, people, bots in days) == hits, dimension


def test_recent_visits_become_hours_and_days() -> None:
    add_recent(NEWS, BOT, NEWS, day=YESTERDAY, hour=9)
    add_recent(NEWS, day=YESTERDAY, hour=9)
    add_recent(PERSON, day=YESTERDAY, hour=23)
    add_recent(BOT, key="b")
    assert roll_up_visits() == 4
    assert not RecentVisits.objects.exists()
    assert hours() == [(YESTERDAY, 9, 3, 1), (YESTERDAY, 23, 1, 0)]
    assert hours("b") == [(TODAY, 0, 0, 1)]
    assert values("referrer") == [(YESTERDAY, "", 1, 1), (YESTERDAY, "news.example", 3, 0)]
    assert values("browser") == [(YESTERDAY, "Firefox", 4, 0), (YESTERDAY, "curl", 0, 1)]
    assert values("country") == [(YESTERDAY, "", 4, 1)]
    add_recent(NEWS, day=YESTERDAY, hour=9)
    assert [roll_up_visits(), roll_up_visits()] == [1, 0]
    assert hours() == [(YESTERDAY, 9, 4, 1), (YESTERDAY, 23, 1, 0)]
    assert_each_visit_is_counted_once()


def test_hours_are_kept_for_two_weeks_and_their_days_have_the_sum() -> None:
    first_shown = hourly_since(TODAY)
    days = [first_shown - timedelta(days=number) for number in (2, 1, 0)]
    for people, day in enumerate(days, start=1):
        add_recent(*[NEWS] * people, day=day, hour=23)
        # An earlier roll-up has stored this hour; its removal does not change the day.
        hour = datetime.combine(day, time(1), UTC)
        HourlyVisits.objects.create(short_url_id="known", hour=hour, people=people)
    assert roll_up_visits() == 4  # three recent rows, and the oldest hour
    # A day more is kept than is shown, for machines whose clocks differ.
    assert {day for day, *_ in hours()} == set(days[1:])
    assert [people for _, _, people, _ in values("device")] == [1, 2, 3]
    assert_each_visit_is_counted_once()


def test_days_older_than_two_years_become_months(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timezone, "now", lambda: datetime(2026, 11, 29, 12, tzinfo=UTC))
    month, kept = date(2024, 10, 1), [date(2024, 11, 2), date(2024, 12, 29), date(2025, 10, 29)]
    for day in kept:
        add_recent(NEWS, day=day)
    for number in (1, 2, 28):
        add_recent(NEWS, BOT, day=month.replace(day=number))
    # Five people of that month whose visits were rolled up already.
    rolled_up = {"short_url_id": "known", "day": month.replace(day=9), "people": 5}
    for dimension in Dimension:
        DailyVisits.objects.create(dimension=dimension, **rolled_up)
    ShortUrl.objects.update(hits=F("hits") + 5)
    assert roll_up_visits() == 6 + 5  # recent rows, and a day of each dimension
    assert values("referrer") == [
        (month, "", 5, 3),
        (month, "news.example", 3, 0),
        *((day, "news.example", 1, 0) for day in kept),
    ]
    assert_each_visit_is_counted_once()


def test_a_day_keeps_a_limited_number_of_values_of_a_dimension(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The most frequent of the first batch, and `other`, which counts all new ones afterwards."""
    monkeypatch.setattr(batches, "MAX_VALUES", 5)
    sites = [NEWS._replace(referrer=f"{number}.example") for number in range(9)]
    add_recent(*sites, sites[8])
    roll_up_visits()
    # 8.example occurs twice, so it is kept, and of the others the first three.
    stored = ["0.example", "1.example", "2.example", "8.example", "other"]
    assert [value for _, value, *_ in values("referrer")] == stored
    add_recent(*sites, NEWS, BOT)
    add_recent(NEWS, key="b")
    roll_up_visits()
    visits = {value: people + bots for _, value, people, bots in values("referrer")}
    # `other` has five sites twice, and the referrers of NEWS and BOT.
    assert visits == {"0.example": 2, "1.example": 2, "2.example": 2, "8.example": 3, "other": 12}
    assert values("referrer", "b") == [(TODAY, "news.example", 1, 0)]
    assert_each_visit_is_counted_once()


@pytest.mark.django_db(transaction=True)
def test_a_roll_up_that_is_killed_has_moved_whole_batches(
    monkeypatch: pytest.MonkeyPatch, other_session: CursorWrapper
) -> None:
    """Its session ends before the second COMMIT; the next roll-up moves the rest."""
    monkeypatch.setattr(batches, "BATCH", 2)
    for _ in range(5):
        add_recent(NEWS, BOT)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        own_session = cursor.fetchone()
    moves = iter(["first", "second"])

    def kill_after_second_move(execute: Callable[..., Any], statement: Any, *rest: Any) -> Any:
        result = execute(statement, *rest)
        if statement is batches.MOVE and next(moves) == "second":
            other_session.execute("SELECT pg_terminate_backend(%s)", own_session)
        return result

    with pytest.raises(OperationalError), connection.execute_wrapper(kill_after_second_move):
        roll_up_visits()
    connection.close()
    assert RecentVisits.objects.count() == 3
    assert_each_visit_is_counted_once()
    assert roll_up_visits() == 3
    assert hours() == [(TODAY, 0, 5, 5)]
    assert_each_visit_is_counted_once()


def test_days_to_merge_into_months_are_found_by_an_index() -> None:
    """The roll-up's statement looks for days older than two years that are not a month's first.

    Another index has all days, and with them the months, which are many after some years.
    """
    months = [date(year, month, 1) for year in range(1900, 2000) for month in range(1, 13)]
    DailyVisits.objects.bulk_create(
        DailyVisits(short_url_id="known", day=day, dimension=Dimension.DEVICE) for day in months
    )
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(sql.SQL("EXPLAIN {}").format(batches.MOVE), batches.move_params())
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "shorturl_dailyvisits_day_ix" in plan


@pytest.mark.django_db(transaction=True)
def test_any_text_is_stored_unchanged() -> None:
    """Visits are sent as JSON."""
    create_link()
    visit = Visit("r" * 253, "it's a \\", '{"%s": $1}', "Ü 🐍\n\x01", "%%", is_bot=False)
    count_hits(("known", visit), ("known", BOT), ("known", visit))
    assert [Visit(*kind) for kind in RecentVisits.objects.get().kinds] == [visit, BOT, visit]
    roll_up_visits()
    for dimension in Dimension:
        assert (TODAY, getattr(visit, dimension), 2, 0) in values(dimension)


@pytest.mark.django_db(transaction=True)
def test_the_command_says_what_it_did_or_why_it_failed() -> None:
    if settings.DATABASE_POOLER != "none":
        pytest.skip("PgBouncer gives a session's setting to another session")
    add_recent(NEWS)
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only TO on")  # so that the roll-up fails
        try:
            refused = r"^The database: cannot execute .+ in a read-only .+ Nothing is lost"
            with pytest.raises(CommandError, match=refused):
                run("roll_up")
        finally:
            cursor.execute("RESET default_transaction_read_only")
    assert run("roll_up") == ("1 row of visits rolled up.\n", "")
