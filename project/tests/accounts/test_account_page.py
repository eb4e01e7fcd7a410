"""The page of an account: its quotas, and its API tokens, made, shown once and revoked."""

import re
from contextlib import closing
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from pytest_django import Settings
from pytest_django.asserts import assertContains

from shorturl.models import ApiToken, ShortUrl
from shorturl.tests.callers import TARGET, admitted, create, text, user

pytestmark = pytest.mark.django_db
ALL = {f"can_{scope}": "on" for scope in ApiToken.SCOPES}


@pytest.fixture
def person(client: Client) -> Client:
    client.force_login(user())
    return client


def make(person: Client, **fields: str) -> str:
    response = person.post("/account", {"name": "laptop", **ALL, **fields})
    assert "no-store" in response["Cache-Control"]
    shown = re.search(r'<input id="token" value="(\S+)"', response.content.decode())
    assert shown, text(response)
    return shown[1]


def test_the_page_needs_a_login(client: Client) -> None:
    for path in ("/account", "/account/password_change/"):
        assert client.get(path)["Location"] == f"/account/login/?next={path}"
    assert client.post("/account", {"name": "laptop", **ALL}).status_code == 302
    assert not ApiToken.objects.exists()


def test_a_token_is_shown_once_and_reaches_own_links_only(
    person: Client, settings: Settings
) -> None:
    """Even a token of staff, whose session reaches all links."""
    settings.SHORTURL_PUBLIC_STATS = False
    person.force_login(user("view_shorturl", staff=True))
    other = ShortUrl.objects.create(key="other", target_url=TARGET)
    token = make(person)
    headers = {"Authorization": f"Bearer {token}"}
    response = create(Client(), {"target_url": TARGET, "key": "own"}, headers=headers)
    assert response.status_code == 201
    assert Client().get("/api/links/own", headers=headers).status_code == 200
    assert Client().get(f"/api/links/{other}", headers=headers).status_code == 404
    for path in ("/account", "/links"):
        assert token not in person.get(path).content.decode()
    assert token not in str(list(ApiToken.objects.values()))
    assert token not in str([session.get_decoded() for session in Session.objects.all()])


def test_a_token_has_the_chosen_scopes_and_a_unique_name(person: Client) -> None:
    assert person.post("/account", {"name": "laptop", "can_read": "on"}).status_code == 200
    assert ApiToken.objects.get().scopes == ["read"]
    again = person.post("/account", {"name": "laptop", **ALL})
    assert again.status_code == 422
    assert "You have a token of this name" in again.content.decode()
    for name in ("", "a\nb", "x" * 101):
        assert person.post("/account", {"name": name, **ALL}).status_code == 422
    person.force_login(user())
    make(person)
    assert ApiToken.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_an_account_that_is_removed_meanwhile_gets_no_token(person: Client) -> None:
    """The account is removed after the session was read and before the INSERT."""
    other = connection.copy()

    def remove_first(execute: Any, sql: Any, *rest: Any) -> Any:
        if str(sql).startswith('INSERT INTO "shorturl_apitoken"'):
            with other.cursor() as cursor:
                cursor.execute("DELETE FROM auth_user")
        return execute(sql, *rest)

    with closing(other), connection.execute_wrapper(remove_first):
        page = person.post("/account", {"name": "laptop", **ALL})
    assertContains(page, "Your account was removed meanwhile", status_code=403)
    assert not ApiToken.objects.exists()


def test_only_own_tokens_are_listed_and_revoked(person: Client) -> None:
    token = make(person)
    stored = ApiToken.objects.get()
    somebody = Client()
    somebody.force_login(user())
    assert "laptop" not in text(somebody.get("/account"))
    assert somebody.post(f"/account/tokens/{stored.pk}/revoke").status_code == 404
    assert admitted(token)
    assert person.get(f"/account/tokens/{stored.pk}/revoke").status_code == 405
    page = person.post(f"/account/tokens/{stored.pk}/revoke", follow=True)
    assert "The token “laptop” is revoked." in text(page)
    assert not admitted(token)
    assert person.post(f"/account/tokens/{stored.pk}/revoke").status_code == 404


def test_quotas_are_those_of_the_account_with_its_tokens(
    person: Client, settings: Settings
) -> None:
    """Otherwise a user without links left could make another token."""
    settings.SHORTURL_LINKS_PER_DAY = 2
    tokens = [make(person), make(person, name="phone")]
    assert "Links a day 0 of 2" in text(person.get("/account"))
    for token, status in zip([*tokens, tokens[0]], (201, 201, 429), strict=True):
        headers = {"Authorization": f"Bearer {token}"}
        assert create(Client(), {"target_url": TARGET}, headers=headers).status_code == status
    assert "Links a day 2 of 2" in text(person.get("/account"))
    assert person.post("/", {"target_url": TARGET}).status_code == 429
    settings.SHORTURL_LINKS_PER_DAY = 0
    assert "as many short URLs as you like" in text(person.get("/account"))
