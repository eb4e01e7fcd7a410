"""DELETE /api/links/{key}, and what becomes of a deleted key: nobody gets it again."""

from typing import Any

import pytest
from django.test import Client

from pginterleave import Outcome, explore
from shorturl.models import ShortUrl
from shorturl.tests.api import OTHER, TARGET, bearer, change, create, fields


@pytest.fixture
def headers() -> dict[str, str]:
    return bearer()


def delete(key: str, headers: dict[str, str]) -> Any:
    return Client().delete(f"/api/links/{key}", headers=headers)


@pytest.mark.django_db
def test_a_deleted_key_leads_nowhere_and_is_given_to_nobody(
    client: Client, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ShortUrl.objects.create(key="gone", target_url=TARGET, hits=3)
    response = delete("gone", headers)
    assert (response.status_code, response.content) == (204, b"")
    assert delete("gone", headers).status_code == 404
    assert change(client, "gone", {"target_url": OTHER}, headers=headers).status_code == 404
    response = create(client, {"target_url": OTHER, "key": "gone"}, headers=headers)
    assert (response.status_code, fields(response)) == (409, {"key": "taken"})
    assert client.get("/gone").status_code == 404
    assert client.head("/gone").status_code == 404
    assert client.get("/api/links/gone").status_code == 404

    drawn = iter(["gone", "free"])
    monkeypatch.setattr("shorturl.keys.draw", lambda length: next(drawn))
    assert create(client, {"target_url": OTHER}, headers=headers).json()["key"] == "free"


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["%00", "Known"])
def test_a_key_that_leads_nowhere(headers: dict[str, str], key: str) -> None:
    ShortUrl.objects.create(key="known", target_url=TARGET)
    assert delete(key, headers).status_code == 404
    assert ShortUrl.objects.get().deleted_at is None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("rival", "answers"),
    [("create", {409}), ("delete", {404}), ("change", {200, 404})],
)
def test_a_deletion_is_final(headers: dict[str, str], rival: str, answers: set[int]) -> None:
    """Whatever somebody else does to the key before, between its statements, or afterwards."""

    def setup() -> None:
        ShortUrl.objects.all().erase()
        ShortUrl.objects.create(key="same", target_url=TARGET)

    def is_final(outcomes: list[Outcome]) -> None:
        statuses = sorted(outcome.returned.status_code for outcome in outcomes)
        assert statuses.count(204) == 1
        statuses.remove(204)
        assert statuses[0] in answers
        same = ShortUrl.objects.get()
        assert same.deleted_at
        assert rival == "change" or same.target_url == TARGET

    calls = {
        "create": lambda: create(Client(), {"target_url": OTHER, "key": "same"}, headers=headers),
        "delete": lambda: delete("same", headers),
        "change": lambda: change(Client(), "same", {"target_url": OTHER}, headers=headers),
    }
    explore([calls["delete"], calls[rival]], setup=setup, invariant=is_final).assert_safe()
