"""The page of an account: its quotas, and its API tokens, made, shown once and revoked."""

import re
from contextlib import closing
from functools import partial

import pytest
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from pytest_django import Settings
from pytest_django.asserts import assertContains

from shorturl.models import ApiToken
from shorturl.tests import callers
from shorturl.tests.callers import TARGET, bearer, create, create_link, is_accepted, text, user
from shorturl.tests.statements import before_statement

pytestmark = pytest.mark.django_db
ALL = {f"can_{scope}": "on" for scope in ApiToken.SCOPES}


@pytest.fixture
def user_client(client: Client) -> Client:
    client.force_login(user())
    return client


def make_token(user_client: Client, **fields: str) -> str:
    """Make a token with all scopes on the page, and return what the page shows."""
    response = user_client.post("/account", {"name": "laptop", **ALL, **fields})
    assert "no-store" in response["Cache-Control"]
    shown = re.search(r'<input id="token" value="(\S+)"', response.content.decode())
    assert shown, text(response)
    return shown[1]


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("/account", "Account"),
        ("/account/login/", "Log in"),
        ("/account/password_change/", "Change the password"),
        ("/account/password_reset/", "Forgot your password?"),
    ],
)
def test_a_refused_form_says_so_in_the_title_and_beside_its_fields(
    user_client: Client, path: str, title: str
) -> None:
    assert " novalidate" in user_client.get(path).text  # the browser leaves it to the service
    page = user_client.post(path, {}).text
    assert f"<title>Error: {title} · shorturl<" in page
    assert "This field is required." in page
    has_password = path in ("/account/login/", "/account/password_change/")
    assert ('autocomplete="username"' in page) is has_password  # for password managers


def test_the_page_needs_a_login(client: Client) -> None:
    for path in ("/account", "/account/password_change/"):
        assert client.get(path)["Location"] == f"/account/login/?next={path}"
    client.cookies["sessionid"] = "a\0" * 8  # which PostgreSQL refuses
    assert client.post("/account", {"name": "laptop", **ALL}).status_code == 302
    assert not ApiToken.objects.exists()


def test_a_token_is_shown_once_and_reaches_own_links_only(
    user_client: Client, settings: Settings
) -> None:
    """Also a token of a member of the staff, whose session reaches all links."""
    settings.SHORTURL_PUBLIC_STATS = False
    user_client.force_login(user("view_shorturl", staff=True))
    create_link("other")
    token = make_token(user_client)
    program = Client(headers=bearer(token))
    assert create(program, {"target_url": TARGET, "key": "own"}).status_code == 201
    assert program.get("/api/links/own").status_code == 200
    assert program.get("/api/links/other").status_code == 404
    for path in ("/account", "/links"):
        assert token not in user_client.get(path).content.decode()
    assert token not in str(list(ApiToken.objects.values()))
    assert token not in str([session.get_decoded() for session in Session.objects.all()])


def test_a_token_has_the_chosen_scopes_and_a_unique_name(user_client: Client) -> None:
    assert user_client.post("/account", {"name": "laptop", "can_read": "on"}).status_code == 200
    assert ApiToken.objects.get().scopes == ["read"]
    again = user_client.post("/account", {"name": "laptop", **ALL})
    assert again.status_code == 422
    assert "You have a token of this name" in again.content.decode()
    for name in ("", "a\nb", "x" * 101):  # empty, of two lines, too long
        assert user_client.post("/account", {"name": name, **ALL}).status_code == 422
    user_client.force_login(user())
    make_token(user_client)
    assert ApiToken.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_an_account_that_is_removed_meanwhile_gets_no_token(user_client: Client) -> None:
    """The account is removed after the session was read and before the INSERT."""
    with closing(connection.copy()) as other, other.cursor() as cursor:
        remove_accounts = partial(cursor.execute, "DELETE FROM auth_user")
        with before_statement('INSERT INTO "shorturl_apitoken"', call=remove_accounts):
            page = user_client.post("/account", {"name": "laptop", **ALL})
    assertContains(page, "Your account was removed meanwhile", status_code=403)
    assert not ApiToken.objects.exists()


def test_only_own_tokens_are_listed_and_revoked(user_client: Client) -> None:
    token = make_token(user_client)
    stored = ApiToken.objects.get()
    somebody = Client()
    somebody.force_login(user())
    assert "laptop" not in text(somebody.get("/account"))
    assert somebody.post(f"/account/tokens/{stored.pk}/revoke").status_code == 404
    assert is_accepted(token)
    of_nobody = callers.make_token()  # as the command makes it, and a visitor is no user either
    path = f"/account/tokens/{ApiToken.objects.latest('id').pk}/revoke"
    assert Client().post(path)["Location"] == f"/account/login/?next={path}"
    assert is_accepted(of_nobody)
    page = user_client.get("/account")
    assert f"{stored.prefix}… may create, read, edit, delete; made" in text(page)
    assert 'aria-label="Revoke laptop"' in page.text
    assert 'id="tokens"' in page.text  # where the form that revokes leads
    assert user_client.get(f"/account/tokens/{stored.pk}/revoke").status_code == 405
    page = user_client.post(f"/account/tokens/{stored.pk}/revoke", follow=True)
    assert "The token “laptop” is revoked." in text(page)
    stored.refresh_from_db()
    assert f" laptop revoked {stored.revoked_at:%-d %B %Y} " in text(page)
    assert f"{stored.prefix}… may create, read, edit, delete; made " in text(page)
    assert not is_accepted(token)
    assert user_client.post(f"/account/tokens/{stored.pk}/revoke").status_code == 404


def test_an_account_and_its_tokens_share_one_quota(user_client: Client, settings: Settings) -> None:
    """Otherwise a user whose quota is used up could make another token."""
    settings.SHORTURL_LINKS_PER_DAY = 2
    first, second = make_token(user_client), make_token(user_client, name="phone")
    page = text(user_client.get("/account"))
    assert "Links a day 0 of 2" in page
    assert "No e-mail address is known" in page
    assert page.index("phone") < page.index("laptop")  # the newest first
    for token, status in ((first, 201), (second, 201), (first, 429)):
        assert create(Client(headers=bearer(token))).status_code == status
    assert "Links a day 2 of 2" in text(user_client.get("/account"))
    assert user_client.post("/", {"target_url": TARGET}).status_code == 429
    settings.SHORTURL_LINKS_PER_DAY = 0  # no limit
    assert "as many short URLs as you like" in text(user_client.get("/account"))
