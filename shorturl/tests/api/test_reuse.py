"""Reusing the caller's own link, in the API and in the form."""

import pytest
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains

from shorturl.models import CLOCK, ShortUrl
from shorturl.tests.callers import OTHER, TARGET, create, create_link, user, with_token

pytestmark = pytest.mark.django_db

BODY = {"target_url": TARGET, "reuse": True}


def test_the_callers_own_link_is_reused(client: Client) -> None:
    own = with_token(user=user())
    create_link("theirs", owner=user())
    create_link("nobodys")
    first = create(own, BODY)
    key = first.json()["key"]
    assert (first.status_code, ShortUrl.objects.count()) == (201, 3)
    client.get(f"/{key}")
    again = create(own, BODY)
    assert (again.status_code, again["Location"]) == (200, first["Location"])
    assert again.json() == {**first.json(), "hits": 1}
    for other in (OTHER, f"{TARGET}/", TARGET.upper()):  # only the same text is reused
        assert create(own, {**BODY, "target_url": other}).status_code == 201
    assert create(own).status_code == 201  # without asking for a reuse
    assert create(own, BODY).json()["key"] == key  # the older of the two
    ShortUrl.objects.filter(key=key).update(expires_at=CLOCK)
    assert create(own, BODY).json()["key"] != key


@pytest.mark.usefixtures("public")
def test_a_reuse_needs_a_user(client: Client, api: Client) -> None:
    for without_user in (client, api):
        assert create(without_user, BODY).status_code == 401
    assert not ShortUrl.objects.exists()


@pytest.mark.usefixtures("public")
def test_the_form_reuses_a_link_for_users_who_check_the_box(client: Client) -> None:
    owner = user()
    assertNotContains(client.get("/"), 'name="reuse"')
    client.force_login(owner)
    assertContains(client.get("/"), 'name="reuse"')
    for message in ("Your short URL is ready.", "You already had this short URL."):
        response = client.post("/", {"target_url": TARGET, "reuse": "on"}, follow=True)
        assertContains(response, message)
    assert ShortUrl.objects.get().owner == owner
    response = client.post("/", {"target_url": TARGET, "key": "spring", "reuse": "on"})
    assertContains(response, "uncheck the box", status_code=422)
