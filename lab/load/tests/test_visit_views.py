"""The endpoints for visits: recorded with hits, rolled up in a space's own table, and no others."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from lab.load import own_visits, visit_views
from lab.load.tests.test_load_views import create, detail, failure, post
from lab.models import KeySpace
from shorturl.models import ShortUrl, VisitCount
from shorturl.strategies import Strategy, Verdict, recording_visits, rolling_up

pytestmark = pytest.mark.django_db

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
HEADERS = {"User-Agent": FIREFOX, "Referer": "https://news.example/today"}
HOUR = timedelta(hours=1)


@pytest.fixture
def client() -> Client:
    """A client without a CSRF token, which no program has."""
    return Client(enforce_csrf_checks=True)


@pytest.fixture
def space(client: Client) -> str:
    """An open key space."""
    return str(post(client, "spaces", {"key_length": 1}).json()["space"])


@pytest.fixture
def own_space(client: Client) -> str:
    """An open key space with visits of its own."""
    return str(post(client, "spaces", {"key_length": 1, "own_visits": True}).json()["space"])


def record(client: Client, key: str, by: str = "upsert") -> Any:
    return client.get(f"/lab/record/{by}/{key}", headers=HEADERS)


def counts(client: Client, space: str) -> list[tuple[int, int]]:
    """Return hits and visits of each link, as they are listed."""
    listed = client.get(f"/lab/spaces/{space}/links").json()["links"]
    return [(hits, visits) for _, _, hits, _, visits in listed]


@pytest.mark.parametrize("strategy", recording_visits.STRATEGIES)
@pytest.mark.django_db(transaction=True)  # combined must be the whole transaction
def test_record(client: Client, space: str, strategy: str) -> None:
    key = create(client, space).json()["key"]
    for hits in (1, 2):
        response = record(client, key, strategy)
        assert response.status_code == 302
        assert response["Location"] == f"https://{space}.invalid/a"
        assert response["Cache-Control"] == "private, no-store"
        assert response["X-Hits"] == str(hits)
        assert counts(client, space) == [(hits, hits)]
    visit = VisitCount.objects.values_list("referrer", "browser", "system", "is_bot").first()
    assert visit == ("news.example", "Firefox", "Linux", False)


def test_to_record_is_one_statement_as_in_the_service(
    client: Client, space: str, own_space: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for each in (space, own_space):
        key = create(client, each).json()["key"]
        with django_assert_num_queries(1):
            record(client, key)


def test_visits_of_all_times_are_added_up(client: Client, space: str) -> None:
    """Of an hour and the next one, of those that were rolled up, and single ones."""
    key = create(client, space).json()["key"]
    for unit, age in (("h", HOUR), ("d", HOUR), (None, 0 * HOUR), ("h", 0 * HOUR)):
        record(client, key)
        row = VisitCount.objects.latest("id")
        VisitCount.objects.filter(pk=row.pk).update(unit=unit, starts_at=row.starts_at - age)
    create(client, space, round=1)
    assert VisitCount.objects.count() == 4
    assert counts(client, space) == [(4, 4), (0, 0)]
    assert client.delete(f"/lab/spaces/{space}").json() == {"removed": 2}
    assert not VisitCount.objects.exists()


@pytest.mark.parametrize("strategy", rolling_up.STRATEGIES)
@pytest.mark.django_db(transaction=True)
def test_a_roll_up_takes_the_visits_of_the_space_and_no_others(
    client: Client, space: str, own_space: str, strategy: str
) -> None:
    keys = [create(client, each).json()["key"] for each in (space, own_space)]
    for key in (*keys, keys[1]):
        record(client, key)
    response = post(client, f"roll_up/{strategy}/{own_space}", {})
    assert (response.status_code, response.json()) == (200, {"taken": 1})
    assert post(client, f"roll_up/{strategy}/{own_space}", {}).json() == {"taken": 0}
    assert counts(client, own_space) == [(2, 2)]
    assert counts(client, space) == [(1, 1)]
    assert [*VisitCount.objects.values_list("unit", "hits")] == [("h", 1)]
    with own_visits.visits_of(KeySpace.objects.get(name=own_space)):
        assert [*VisitCount.objects.values_list("unit", "hits")] == [("d", 2)]
    client.delete(f"/lab/spaces/{own_space}")
    assert f"{own_space}-visits" not in connection.introspection.table_names()


def test_a_roll_up_without_visits_of_its_own_is_refused(client: Client, space: str) -> None:
    record(client, create(client, space).json()["key"])
    text = detail(post(client, f"roll_up/watermark/{space}", {}), 409)
    assert text == (
        f"'{space}' has no visits of its own, and a roll-up takes those of all links: open a space "
        'with "own_visits": true.'
    )
    assert VisitCount.objects.get().unit == "h"


def test_a_role_that_may_not_make_tables(client: Client) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE lab_without_tables")  # which the test's rollback removes
        cursor.execute("GRANT INSERT, SELECT ON lab_keyspace TO lab_without_tables")
        cursor.execute("SET LOCAL ROLE lab_without_tables")
        text = detail(post(client, "spaces", {"key_length": 1, "own_visits": True}), 403)
        cursor.execute("RESET ROLE")
    assert text == "own_visits: permission denied for schema public"
    assert not KeySpace.objects.exists()


def test_what_fails(client: Client, own_space: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failure(record(client, f"{own_space}-0-none"), 404, "DoesNotExist", "right")

    class Ended(Exception):
        sqlstate = "57014"

    def roll_up(unit: str | None, into: str, before: datetime) -> int:
        raise OperationalError("gone") from Ended()

    broken = Strategy("broken", roll_up, Verdict.RIGHT, "–", "")
    monkeypatch.setitem(rolling_up.STRATEGIES, "broken", broken)
    path = f"roll_up/broken/{own_space}"
    failure(post(client, path, {}), 503, "OperationalError", "right")
    for code in visit_views.IN_THE_WAY:
        monkeypatch.setattr(Ended, "sqlstate", code)
        text = detail(post(client, path, {}), 409)
        assert text == "Another roll-up was in the way, and nothing was done."


def test_what_does_not_exist(client: Client, space: str) -> None:
    for response, strategies in (
        (record(client, f"{space}-0-a", "nope"), recording_visits.STRATEGIES),
        (post(client, f"roll_up/nope/{space}", {}), rolling_up.STRATEGIES),
    ):
        text = detail(response, 404)
        assert text == f"There is no strategy 'nope'; there are {', '.join(strategies)}."
    assert "There is no key space" in detail(post(client, "roll_up/batches/lab-aaaaa", {}), 404)
    assert "is in no key space" in detail(record(client, "lab-aaaaa-0-a"), 404)
    ShortUrl.objects.create(key="mine", target_url="https://example.com/")
    assert "is in no key space" in detail(record(client, "mine"), 404)
    assert ShortUrl.objects.get().hits == 0
    assert client.get(f"/lab/roll_up/batches/{space}").status_code == 405
    assert post(client, f"record/upsert/{space}-0-a", {}).status_code == 405
