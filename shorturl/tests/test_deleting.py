"""DELETE /api/links/{key}, and what becomes of a deleted key: nobody gets it again."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from shorturl.models import ShortUrl
from shorturl.tests.api import OTHER, TARGET, bearer, change, create, fields
from shorturl.tests.competitor import Competitor, Outcome, after_statement, break_at


@pytest.fixture
def headers() -> dict[str, str]:
    return bearer()


def delete(key: str, headers: dict[str, str]) -> Any:
    return Client().delete(f"/api/links/{key}", headers=headers)


@pytest.mark.django_db
def test_a_deleted_key_leads_nowhere(client: Client, headers: dict[str, str]) -> None:
    ShortUrl.objects.create(key="gone", target_url=TARGET, hits=3)
    response = delete("gone", headers)
    assert (response.status_code, response.content) == (204, b"")
    assert client.get("/gone").status_code == 404
    assert client.head("/gone").status_code == 404
    assert client.get("/gone/stats").status_code == 404
    assert client.get("/api/links/gone").status_code == 404
    assert change(client, "gone", {"target_url": OTHER}, headers=headers).status_code == 404
    assert delete("gone", headers).status_code == 404


@pytest.mark.django_db
def test_a_deleted_key_is_not_given_to_anybody(client: Client, headers: dict[str, str]) -> None:
    ShortUrl.objects.create(key="gone", target_url=TARGET)
    delete("gone", headers)
    response = create(client, {"target_url": OTHER, "key": "gone"}, headers=headers)
    assert (response.status_code, fields(response)) == (409, {"key": "taken"})
    assert client.get("/gone").status_code == 404


@pytest.mark.django_db
def test_a_deleted_key_is_not_drawn(
    client: Client, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ShortUrl.objects.create(key="gone", target_url=TARGET)
    delete("gone", headers)
    drawn = iter(["gone", "free"])
    monkeypatch.setattr("shorturl.keys.draw", lambda length: next(drawn))
    assert create(client, {"target_url": OTHER}, headers=headers).json()["key"] == "free"


@pytest.mark.django_db
def test_the_row_stays(headers: dict[str, str]) -> None:
    ShortUrl.objects.create(key="gone", target_url=TARGET, hits=3)
    delete("gone", headers)
    gone = ShortUrl.objects.get()
    assert (gone.key, gone.target_url) == ("gone", TARGET)
    assert gone.hits == 3
    assert gone.deleted_at is not None


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["unknown", "%00", "Known"])
def test_a_key_that_leads_nowhere(headers: dict[str, str], key: str) -> None:
    ShortUrl.objects.create(key="known", target_url=TARGET)
    assert delete(key, headers).status_code == 404
    assert ShortUrl.objects.get().deleted_at is None


def wounds(
    first: Callable[[], Any], second: Callable[[], Any], broken: Callable[[Outcome, Outcome], Any]
) -> dict[int, str]:
    def setup() -> None:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM shorturl_shorturl")
        ShortUrl.objects.create(key="same", target_url=TARGET)

    return break_at(first, second, setup=setup, broken=broken)


@pytest.mark.django_db(transaction=True)
def test_somebody_wants_the_key_while_it_is_deleted(headers: dict[str, str]) -> None:
    """The key is asked for after each statement of the DELETE: it is taken, before and after."""

    def broken(one: Outcome, two: Outcome) -> str | None:
        statuses = (one.returned.status_code, two.returned.status_code)
        same = ShortUrl.objects.get(key="same")
        if statuses == (204, 409) and same.target_url == TARGET and same.deleted_at:
            return None
        return f"{statuses} {same.target_url} {same.deleted_at}"

    def want() -> Any:
        return create(Client(), {"target_url": OTHER, "key": "same"}, headers=headers)

    assert wounds(lambda: delete("same", headers), want, broken) == {}
    assert wounds(want, lambda: delete("same", headers), lambda a, b: broken(b, a)) == {}


@pytest.mark.django_db(transaction=True)
def test_two_delete_the_same(headers: dict[str, str]) -> None:
    """Process 2 deletes after each statement of process 1: one has done it, one comes too late."""

    def broken(one: Outcome, two: Outcome) -> str | None:
        statuses = sorted([one.returned.status_code, two.returned.status_code])
        return None if statuses == [204, 404] else f"{statuses}"

    def process() -> Any:
        return delete("same", headers)

    assert wounds(process, process, broken) == {}


@pytest.mark.django_db(transaction=True)
def test_an_edit_does_not_undo_a_deletion(headers: dict[str, str]) -> None:
    """The link is deleted after the PATCH has read it and before it writes."""
    ShortUrl.objects.create(key="same", target_url=TARGET)
    competitor = Competitor(lambda: delete("same", headers))
    with after_statement(2, competitor):  # the token, the SELECT
        change(Client(), "same", {"target_url": OTHER}, headers=headers)
    competitor.join()
    assert competitor.outcome.returned.status_code == 204
    assert Client().get("/same").status_code == 404
