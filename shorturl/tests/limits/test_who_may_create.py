"""Creating takes a login, unless SHORTURL_PUBLIC_CREATE is set."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.backends.utils import CursorWrapper
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains, assertRedirects

from shorturl import operations
from shorturl.models import ShortUrl
from shorturl.tests.callers import TARGET, create, user

FORM = {"target_url": "https://example.com/", "key": "spring"}
PASSWORD = "correct horse battery staple"

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("private")]


def test_visitor_may_follow_and_not_create(client: Client) -> None:
    operations.create("https://example.com/", key="known")
    assert client.get("/known").status_code == 302
    response = client.get("/")
    assertContains(response, '<a class="button" href="/account/login/">Log in</a>')
    assertNotContains(response, "id_target_url")
    response = client.post("/", FORM)
    assertContains(response, "Log in to create a short URL.", status_code=403)
    assertContains(response, 'href="/account/login/"', status_code=403)
    assert ShortUrl.objects.get().key == "known"


def test_a_user_logs_in_and_creates_and_logs_out(client: Client) -> None:
    User.objects.create_user("somebody", password=PASSWORD)
    response = client.get("/account/login/", {"next": "/spring/stats"})
    assertContains(response, "<title>Log in · shorturl</title>")
    assertContains(response, '<input type="hidden" name="next" value="/spring/stats">')
    response = client.post("/account/login/", {"username": "somebody", "password": "wrong"})
    assertContains(response, "Please enter a correct username and password.")
    assertContains(response, "<title>Error: Log in · shorturl</title>")
    form = {"username": "somebody", "password": PASSWORD}
    response = client.post("/account/login/", form, follow=True)
    assertRedirects(response, "/")
    assertContains(response, '<a href="/account">Account</a>')
    assertContains(response, "id_target_url")
    assertRedirects(client.post("/", FORM), "/spring/stats", status_code=303)
    assertRedirects(client.post("/account/logout/"), "/")
    assertNotContains(client.get("/"), "somebody")


@pytest.mark.parametrize("sent", [{}, {"Idempotency-Key": "a-key"}])
def test_an_account_that_is_removed_during_the_request(
    client: Client, sent: dict[str, str], elsewhere: CursorWrapper
) -> None:
    """It is removed between the check of the login and the INSERT."""

    def remove_first(execute: Any, sql: Any, *rest: Any) -> Any:
        if "INSERT INTO" in str(sql) and "shorturl_shorturl" in str(sql):
            elsewhere.execute("DELETE FROM auth_user")
        return execute(sql, *rest)

    with connection.execute_wrapper(remove_first):
        client.force_login(user())
        response = create(client, {"target_url": TARGET}, headers=sent)
        assert response.status_code == 401
        assert "The account was removed meanwhile" in response.json()["detail"]
        client.force_login(user())
        page = client.post("/", {"target_url": TARGET})
        assert (page.status_code, "account was removed" in page.text) == (403, True)
    assert not ShortUrl.objects.exists()
