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


# --- While somebody else … -----------------------------------------------------------------------


def setup() -> None:
    ShortUrl.objects.all().erase()
    ShortUrl.objects.create(key="same", target_url=TARGET)


def statuses(outcomes: list[Outcome]) -> list[int]:
    return [outcome.returned.status_code for outcome in outcomes]


@pytest.mark.django_db(transaction=True)
def test_somebody_wants_the_key_while_it_is_deleted(headers: dict[str, str]) -> None:
    """The key is taken, before and after the deletion."""

    def stays_taken(outcomes: list[Outcome]) -> None:
        assert statuses(outcomes) == [204, 409]
        same = ShortUrl.objects.get(key="same")
        assert same.target_url == TARGET
        assert same.deleted_at

    def want() -> Any:
        return create(Client(), {"target_url": OTHER, "key": "same"}, headers=headers)

    explore(
        [lambda: delete("same", headers), want], setup=setup, invariant=stays_taken
    ).assert_safe()


@pytest.mark.django_db(transaction=True)
def test_two_delete_the_same(headers: dict[str, str]) -> None:
    """One has done it, and the other comes too late."""

    def once(outcomes: list[Outcome]) -> None:
        assert sorted(statuses(outcomes)) == [204, 404]

    explore([lambda: delete("same", headers)] * 2, setup=setup, invariant=once).assert_safe()


@pytest.mark.django_db(transaction=True)
def test_an_edit_does_not_undo_a_deletion(headers: dict[str, str]) -> None:
    """The link is deleted before the PATCH has read it, before it writes, or afterwards."""

    def stays_deleted(outcomes: list[Outcome]) -> None:
        edited, deleted = statuses(outcomes)
        assert edited in (200, 404)
        assert deleted == 204
        assert ShortUrl.objects.get().deleted_at

    def edit() -> Any:
        return change(Client(), "same", {"target_url": OTHER}, headers=headers)

    explore(
        [edit, lambda: delete("same", headers)], setup=setup, invariant=stays_deleted
    ).assert_safe()
