"""The roll-up of visits into hours, days and months."""

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from types import ModuleType
from typing import Any

import pytest
from django.conf import settings
from django.core.management.base import CommandError
from django.db import OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from pginterleave import Outcome, explore
from shorturl.models import ShortUrl, Visit, VisitCount
from shorturl.strategies.recording_visits import one_transaction
from shorturl.strategies.rolling_up import batches, by_key
from shorturl.strategies.table import STRATEGIES, Verdict
from shorturl.tests.callers import only_link, run
from shorturl.visits import compaction
from shorturl.visits.roll_up import roll_up_visits

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 15, 12, 30, tzinfo=UTC)
ALL = datetime(9999, 1, 1, tzinfo=UTC)
RIGHT = ("delete_returning", "batches", "by_key")


def add(unit: str, starts_at: datetime, hits: int = 1, key: str = "a", **kind: Any) -> None:
    link, _ = ShortUrl.objects.get_or_create(key=key, target_url="https://a.example/")
    values = {**Visit()._asdict(), **kind}
    VisitCount.objects.create(short_url=link, unit=unit, starts_at=starts_at, hits=hits, **values)


def rows() -> list[tuple[str, str, int]]:
    found = VisitCount.objects.order_by("starts_at", "unit", "browser")
    return [(each.unit, f"{each.starts_at:%Y-%m-%d %H}", each.hits) for each in found]


@pytest.mark.parametrize("on_citus", [False, True])
def test_hours_become_days_and_days_months(
    on_citus: bool, settings: Settings, request: pytest.FixtureRequest
) -> None:
    if on_citus:
        request.getfixturevalue("clusters_way")
    settings.SHORTURL_VISITS_HOURLY_DAYS, settings.SHORTURL_VISITS_DAILY_DAYS = 10, 40
    midnight = NOW.replace(hour=0, minute=0)
    add("h", NOW.replace(minute=0), 7)
    kept, old = midnight - timedelta(days=10), midnight - timedelta(days=11)
    add("h", kept)
    add("h", old + timedelta(hours=3), 2)
    add("h", old + timedelta(hours=23), 3)
    add("h", old + timedelta(hours=23), 4, browser="Firefox")
    add("d", old, 100)
    add("d", datetime(2026, 2, 1, tzinfo=UTC), 7)
    add("d", datetime(2026, 1, 31, tzinfo=UTC), 8)
    add("h", datetime(2026, 1, 2, 3, tzinfo=UTC), 9)
    sums = VisitCount.objects.aggregate(hits=Sum("hits"))
    assert roll_up_visits(NOW) == 4 + 2
    assert rows() == [
        ("m", "2026-01-01 00", 17),
        ("d", "2026-02-01 00", 7),
        ("d", "2026-03-04 00", 105),
        ("d", "2026-03-04 00", 4),
        ("h", "2026-03-05 00", 1),
        ("h", "2026-03-15 12", 7),
    ]
    assert VisitCount.objects.aggregate(hits=Sum("hits")) == sums
    assert roll_up_visits(NOW) == 0


def test_it_goes_on_until_a_batch_is_not_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH", 2)
    monkeypatch.setattr(compaction, "BATCH", 2)
    for hour in range(5):
        add("h", datetime(2026, 1, 2, hour, tzinfo=UTC))
    assert roll_up_visits(NOW) == 5
    assert rows() == [("d", "2026-01-02 00", 5)]


@pytest.mark.parametrize("strategy", [batches, by_key])
def test_due_rows_are_found_by_the_index(strategy: ModuleType) -> None:
    """The table has rows, because in an empty table that was analyzed all indexes cost the same."""
    VisitCount.objects.bulk_create(
        VisitCount(
            short_url_id="a", unit="d", starts_at=NOW + timedelta(days=n), **Visit()._asdict()
        )
        for n in range(1_000)
    )
    with CaptureQueriesContext(connection) as sent:
        strategy.roll_up("h", "d", NOW)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE shorturl_visitcount")
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {sent[0]['sql']}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "Index Cond: (((unit)::text = 'h'::text) AND (starts_at <" in plan, plan


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("name", "number"),
    [
        *((name, 1) for name in (*RIGHT, "select_then_delete")),
        *(pytest.param(name, 2, marks=pytest.mark.exhaustive) for name in RIGHT),
    ],
)
def test_a_roll_up_beside_visits_in_open_transactions(name: str, number: int) -> None:
    """A visit locks its link, then the row of the hour, and holds both locks until its COMMIT.

    In every order of the statements a right roll-up loses nothing and causes no deadlock.
    """
    strategy, visit = STRATEGIES["rolling_up"][name], Visit(browser="Firefox")

    def setup() -> None:
        only_link("a")
        one_transaction.record("a", visit)

    def broken(outcomes: list[Outcome]) -> str:
        visits = VisitCount.objects.aggregate(visits=Sum("hits"))["visits"]
        found = [outcome.raised for outcome in outcomes], ShortUrl.objects.get().hits, visits
        return "" if found == ([None] * (number + 1), number + 1, number + 1) else str(found)

    result = explore(
        [partial(one_transaction.record, "a", visit)] * number
        + [lambda: strategy.function("h", "d", ALL)],
        setup=setup,
        invariant=broken,
    )
    assert result.complete
    assert bool(result.violations) is (strategy.verdict is Verdict.WRONG), result


@pytest.mark.parametrize("strategy", [batches, by_key])
def test_the_rows_of_all_links_are_locked_in_one_order(strategy: ModuleType) -> None:
    """The ids show the order. In one order, two concurrent roll-ups do not deadlock."""
    for key, browser in product("ba", ("Lynx", "Firefox", "Chrome", "Safari", "Edge")):
        for age in (3, 1, 2):
            add("h", NOW - timedelta(days=age), key=key, browser=browser)
    assert strategy.roll_up("h", "d", NOW) == 2 * 15
    added = VisitCount.objects.order_by("id").values_list("id")
    assert [*added] == [*added.order_by("short_url", "starts_at", "browser")]
    assert {each.unit for each in VisitCount.objects.all()} == {"d"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("strategy", [batches, by_key])
def test_it_skips_locked_rows(strategy: ModuleType, elsewhere: CursorWrapper) -> None:
    for browser in ("Firefox", "Lynx"):
        add("h", NOW - timedelta(days=1), browser=browser)
    elsewhere.execute("BEGIN")
    elsewhere.execute("SELECT FROM shorturl_visitcount WHERE browser = 'Lynx' FOR NO KEY UPDATE")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '50ms'")
        assert strategy.roll_up("h", "d", NOW) == 1
    elsewhere.execute("ROLLBACK")
    assert strategy.roll_up("h", "d", NOW) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["roll_up", "compact"])
def test_a_session_killed_between_two_statements_has_moved_nothing(
    name: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DATABASE_CITUS = True
    monkeypatch.setattr(compaction, "CROWDED", 1)
    for browser in ("Firefox", "Lynx"):
        add("h", NOW - timedelta(days=1), browser=browser)

    def kill(execute: Callable[..., Any], sql: Any, *rest: Any) -> Any:
        if "INSERT" in str(sql):
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")  # of the server, also behind PgBouncer
                (session,) = cursor.fetchone()
            with closing(connection.copy()) as other, other.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(%s)", [session])
        return execute(sql, *rest)

    def moved() -> int:
        if name == "compact":
            return compaction.compact("h", "h", NOW)
        return by_key.roll_up("h", "d", NOW)

    before = [*VisitCount.objects.order_by("id").values()]
    with pytest.raises(OperationalError), connection.execute_wrapper(kill):
        moved()
    connection.close()
    assert [*VisitCount.objects.order_by("id").values()] == before
    assert moved() == 2
    assert VisitCount.objects.each_once().aggregate(hits=Sum("hits")) == {"hits": 2}


@pytest.mark.django_db(transaction=True)
def test_the_command_says_what_it_did() -> None:
    if settings.DATABASE_POOLER != "none":
        pytest.skip("PgBouncer gives a session's setting to another session")
    add("h", datetime(2020, 1, 2, 3, tzinfo=UTC))
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only TO on")
        try:
            refused = r"^The database: cannot execute .+ in a read-only .+ Nothing is lost"
            with pytest.raises(CommandError, match=refused):
                run("roll_up")
        finally:
            cursor.execute("RESET default_transaction_read_only")
    assert run("roll_up") == ("2 rows of visits rolled up.\n", "")  # to the day, and to the month
