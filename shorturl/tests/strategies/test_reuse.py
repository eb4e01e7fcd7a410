"""Reusing a link, in the API and in the form; lab/races has the races."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains

from shorturl import following, operations
from shorturl.models import ShortUrl, Visit
from shorturl.strategies.table import STRATEGIES, Strategy
from shorturl.tests.callers import OTHER, TARGET, bearer, create, fields, for_strategies, user

pytestmark = pytest.mark.django_db

BODY = {"target_url": TARGET, "reuse": True}


@pytest.fixture
def owner() -> User:
    return user()


@pytest.fixture
def headers(owner: User) -> dict[str, str]:
    return bearer(user=owner)


def test_the_callers_own_live_link(client: Client, headers: dict[str, str], owner: User) -> None:
    operations.create(TARGET, owner_id=user().pk)
    operations.create(TARGET)
    first = create(client, BODY, headers=headers)
    assert (first.status_code, ShortUrl.objects.count()) == (201, 3)
    following.follow(first.json()["key"], Visit(is_bot=False))
    again = create(client, BODY, headers=headers)
    assert (again.status_code, again["Location"]) == (200, first["Location"])
    assert again.json() == {**first.json(), "hits": 1}
    for other in (OTHER, f"{TARGET}/", TARGET.upper()):
        assert create(client, {**BODY, "target_url": other}, headers=headers).status_code == 201
    assert create(client, {"target_url": TARGET}, headers=headers).status_code == 201
    assert create(client, BODY, headers=headers).json()["key"] == first.json()["key"]


@pytest.mark.usefixtures("public")
def test_invalid_requests_to_reuse(client: Client, headers: dict[str, str]) -> None:
    response = create(client, {**BODY, "key": "spring"}, headers=headers)
    assert (response.status_code, fields(response)) == (422, {"reuse": "not_alone"})
    response = create(client, {**BODY, "reuse": 1}, headers=headers)
    assert (response.status_code, fields(response)) == (422, {"reuse": "bool_type"})
    for without_user in ({}, bearer()):
        assert create(client, BODY, headers=without_user).status_code == 401
    assert not ShortUrl.objects.exists()


@for_strategies(STRATEGIES["reusing"].values())
@pytest.mark.django_db(transaction=True)
def test_a_link_that_is_not_live_is_not_reused(strategy: Strategy) -> None:
    owner_id = user().pk
    new: Any = (
        {"deleted_at": Now()},
        {"expires_at": Now() - timedelta(1)},
        {"hits": 1, "max_hits": 1},
    )

    def reuse(key: str) -> Any:
        make = partial(ShortUrl.objects.create, key=key, target_url=TARGET, owner_id=owner_id)
        return strategy.function(TARGET, owner_id=owner_id, create=make)

    for number, why in enumerate(new):
        short_url, created = reuse(f"key{number}")
        assert created
        assert reuse("another") == (short_url, False)
        ShortUrl.objects.filter(pk=short_url.pk).update(**why)
    assert ShortUrl.objects.count() == 3


def test_the_box_of_the_form(client: Client, owner: User, settings: Any) -> None:
    settings.SHORTURL_PUBLIC_CREATE = True
    assertNotContains(client.get("/"), 'name="reuse"')
    client.force_login(owner)
    assertContains(client.get("/"), 'name="reuse"')
    for message in ("Your short URL is ready.", "You already had this short URL."):
        response = client.post("/", {"target_url": TARGET, "reuse": "on"}, follow=True)
        assertContains(response, message)
    assert ShortUrl.objects.get().owner == owner
    response = client.post("/", {"target_url": TARGET, "key": "spring", "reuse": "on"})
    assertContains(response, "uncheck the box", status_code=422)
