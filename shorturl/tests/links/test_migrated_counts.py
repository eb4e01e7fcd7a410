"""A database with partial counts and single visits is migrated, and shows the same numbers."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Sum
from django.test import Client
from django.utils import timezone

from shorturl.events.subscribing import subscribe
from shorturl.models import (
    LinkEvent,
    RecentVisits,
    RecordedVisits,
    ShortUrl,
    Visit,
    VisitCount,
)
from shorturl.tests.callers import TARGET, bearer, user

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = ("shorturl", "0018_recent_visits")
HOUR = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = datetime(2026, 2, 1, tzinfo=UTC)
NEWS, BOT = Visit("news.example", "Firefox", is_bot=False), Visit()
# key: hits, limit, partial counts by slot, and what is shown: hits and limit
LINKS: dict[str, tuple[int, int | None, list[tuple[int | None, int]], tuple[int, int | None]]] = {
    "plain": (5, None, [(0, 3), (None, 1), (None, 1)], (10, None)),
    "limited": (2, 10, [(3, 4)], (6, 10)),
    "reached": (1, 4, [(0, 1), (1, 2)], (4, 4)),
    "exceeded": (3, 5, [(None, 1), (0, 3)], (7, 7)),
    "full": (7, 7, [], (7, 7)),
    "deleted": (1, None, [(0, 1)], (2, None)),
}


@pytest.fixture
def before() -> Iterator[Any]:
    """Migrate back; yield the models of that time."""
    call_command("migrate", *BEFORE, verbosity=0)
    yield MigrationExecutor(connection).loader.project_state(BEFORE).apps
    call_command("migrate", verbosity=0)


def test_the_numbers_stay_the_same(before: Any, client: Client) -> None:
    links, parts = (before.get_model("shorturl", name) for name in ("ShortUrl", "PartialCount"))
    owner = user()
    for key, (hits, limit, _, _) in LINKS.items():
        links.objects.create(
            key=key, target_url=TARGET, hits=hits, max_hits=limit, owner_id=owner.pk
        )
    ShortUrl.objects.filter(key="deleted").update(deleted_at=timezone.now())
    subscribe("https://receiver.example/")
    for key, (_, _, counts, _) in LINKS.items():
        for slot, hits in counts:
            parts.objects.create(short_url_id=key, slot=slot, hits=hits)
    parts.objects.create(short_url_id="of none", hits=1)
    rows: list[tuple[Any, datetime, Visit, int]] = [
        ("h", HOUR, NEWS, 2),
        (None, HOUR, NEWS, 1),
        (None, HOUR, NEWS, 1),
        (None, HOUR + timedelta(hours=1), BOT, 1),
        ("d", DAY, BOT, 3),
    ]
    for unit, at, kind, hits in rows:
        values = {"unit": unit, "starts_at": at, "hits": hits, **kind._asdict()}
        VisitCount.objects.create(short_url_id="plain", **values)
    RecentVisits.objects.create(short_url_id="plain", starts_at=HOUR, kinds=[NEWS, BOT])
    headers = bearer(user=owner)

    call_command("migrate", verbosity=0)

    assert {
        key: (hits, limit)
        for key, hits, limit in ShortUrl.objects.values_list("key", "hits", "max_hits")
    } == {key: shown for key, (_, _, _, shown) in LINKS.items()}
    listed = client.get("/api/links", headers=headers).json()["items"]
    assert {each["key"]: each["state"] for each in listed} == {
        "plain": "live",
        "limited": "live",
        "reached": "used up",
        "exceeded": "used up",
        "full": "used up",
    }
    assert set(VisitCount.objects.values_list("unit", "starts_at", "referrer", "hits")) == {
        ("h", HOUR, "news.example", 4),
        ("h", HOUR + timedelta(hours=1), "", 1),
        ("d", DAY, "", 3),
    }
    assert RecordedVisits.objects.aggregate(Sum("hits")) == {"hits__sum": 10}
    assert not LinkEvent.objects.exists()
    client.delete("/api/links/plain", headers=headers)
    assert [event.type for event in LinkEvent.objects.all()] == ["link.deleted"]
