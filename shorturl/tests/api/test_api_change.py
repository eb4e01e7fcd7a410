"""PATCH and DELETE /api/links/{key}; a deleted key is never reused."""

from functools import partial
from typing import Any

import pytest
from django.test import Client

from pginterleave import Outcome, explore
from shorturl.models import ShortUrl
from shorturl.tests.callers import OTHER, TARGET, change, create, fields, only_link


def delete(key: str, headers: dict[str, str]) -> Any:
    return Client().delete(f"/api/links/{key}", headers=headers)


@pytest.mark.django_db
def test_a_deleted_key_is_404_and_never_reused(
    client: Client, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ShortUrl.objects.create(key="gone", target_url=TARGET, hits=3)
    response = delete("gone", headers)
    assert (response.status_code, response.content) == (204, b"")
    assert delete("gone", headers).status_code == 404
    assert change(client, "gone", {"target_url": OTHER}, headers=headers).status_code == 404
    response = create(client, {"target_url": OTHER, "key": "gone"}, headers=headers)
    assert (response.status_code, fields(response)) == (409, {"key": "taken"})
    assert client.get("/gone").status_code == client.head("/gone").status_code == 404
    assert client.get("/api/links/gone").status_code == 404

    drawn = iter(["gone", "free"])
    monkeypatch.setattr("shorturl.links.keys.draw", lambda length: next(drawn))
    assert create(client, {"target_url": OTHER}, headers=headers).json()["key"] == "free"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("rival", "answers"), [("create", {409}), ("delete", {404}), ("change", {200, 404})]
)
def test_a_deletion_is_final(headers: dict[str, str], rival: str, answers: set[int]) -> None:
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
    explore(
        [calls["delete"], calls[rival]], setup=partial(only_link, "same"), invariant=is_final
    ).assert_safe()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ({}, {"body": "nothing"}),
        ({"target_url": "javascript:alert(1)"}, {"target_url": "scheme"}),
        ({"target_url": "http://testserver/"}, {"target_url": "own_host"}),
        ({"target_url": OTHER, "key": "mine"}, {"key": "extra_forbidden"}),
    ],
)
def test_invalid_changes(client: Client, headers: dict[str, str], body: Any, codes: Any) -> None:
    ShortUrl.objects.create(key="known", target_url=TARGET)
    response = change(client, "known", body, headers=headers)
    assert (response.status_code, fields(response)) == (422, codes)
    assert ShortUrl.objects.get().target_url == TARGET


@pytest.mark.django_db
def test_title_and_tags_are_changed_and_removed(client: Client, headers: dict[str, str]) -> None:
    ShortUrl.objects.create(key="known", target_url=TARGET, title="Old", tags=["old"])
    changed = change(client, "known", {"tags": ["New"]}, headers=headers).json()
    assert (changed["title"], changed["tags"]) == ("Old", ["new"])
    changed = change(client, "known", {"title": "", "tags": []}, headers=headers).json()
    assert (changed["title"], changed["tags"]) == ("", [])
    assert ShortUrl.objects.get().tags is None
