"""Permissions of the API: with a token, with a login, and with neither."""

import json
from typing import Any

import pytest
from django.test import Client

from shorturl.models import ApiToken, ShortUrl
from shorturl.tests.callers import (
    JSON,
    OTHER,
    TARGET,
    bearer,
    create,
    create_link,
    user,
    with_token,
)

pytestmark = pytest.mark.django_db

NEW = {"target_url": TARGET}
CALLS = {
    "create": ("POST", "/api/links", NEW),
    "list": ("GET", "/api/links", None),
    "get": ("GET", "/api/links/known", None),
    "change": ("PATCH", "/api/links/known", {"target_url": OTHER}),
    "delete": ("DELETE", "/api/links/known", None),
}
DONE = {"create": 201, "list": 200, "get": 200, "change": 200, "delete": 204}
# For a logged-in user who does not own the link.
OPEN = {"create": 201, "list": 200, "get": 404, "change": 404, "delete": 404}
SCOPES = {"create": "create", "list": "read", "get": "read", "change": "edit", "delete": "delete"}
PERMISSIONS = {"get": "view_shorturl", "change": "change_shorturl", "delete": "delete_shorturl"}
every_call = pytest.mark.parametrize("call", CALLS)


@pytest.fixture(autouse=True)
def _known(private: None) -> None:
    create_link()


@pytest.fixture
def browser() -> Client:
    return Client(enforce_csrf_checks=True)


def status(client: Client, call: str, **headers: str) -> int:
    method, path, body = CALLS[call]
    data = json.dumps(body) if body else ""
    response = client.generic(method, path, data, content_type=JSON, headers=headers)
    if response.status_code == 401:
        assert response["WWW-Authenticate"] == "Bearer"
    if response.status_code >= 400:
        assert response.json()["detail"].endswith(".")
    return int(response.status_code)


def csrf(client: Client) -> dict[str, str]:
    client.cookies["csrftoken"] = "a" * 32
    return {"X-CSRFToken": "a" * 32}


def scopes(*names: str) -> dict[str, bool]:
    """Return the fields of a token with these scopes alone."""
    return {f"can_{name}": name in names for name in ApiToken.SCOPES}


@every_call
def test_a_login_reaches_own_links_and_public_access_some_calls(
    browser: Client, call: str, settings: Any
) -> None:
    assert status(browser, call) == 401
    person = user()
    browser.force_login(person)
    assert status(browser, call, **csrf(browser)) == OPEN[call]
    person.delete()
    assert status(browser, call, **csrf(browser)) == 401
    settings.SHORTURL_PUBLIC_CREATE = settings.SHORTURL_PUBLIC_STATS = True
    assert status(browser, call) == {"create": 201, "get": 200}.get(call, 401)


@every_call
def test_neither_a_login_nor_public_access_makes_up_for_an_invalid_token(
    browser: Client, call: str, settings: Any
) -> None:
    revoked = bearer(revoked_at="2001-01-01T00:00Z")["Authorization"]
    settings.SHORTURL_PUBLIC_CREATE = settings.SHORTURL_PUBLIC_STATS = True
    browser.force_login(user(*PERMISSIONS.values(), staff=True))
    no_scheme = bearer()["Authorization"].removeprefix("Bearer ")
    invalid = ("Bearer unknown", "Bearer", "", "Basic dTpw", "Bearer ä", "Bearer \0")
    for header in (*invalid, revoked, no_scheme):
        assert status(browser, call, **csrf(browser), Authorization=header) == 401, header
    # A valid token needs no CSRF token, even with a login, and counts instead of the login.
    browser.force_login(user())
    assert status(browser, call, Authorization=f"bearer   {no_scheme}") == DONE[call]


@pytest.mark.parametrize("call", PERMISSIONS)
@pytest.mark.parametrize("staff", [True, False])
def test_staff_have_the_permissions_of_the_admin(browser: Client, call: str, staff: bool) -> None:
    browser.force_login(user(PERMISSIONS[call], staff=staff))
    for other in PERMISSIONS:
        done = other == call and staff
        assert status(browser, other, **csrf(browser)) == (DONE if done else OPEN)[other]


@every_call
def test_a_token_may_do_what_its_scopes_allow(browser: Client, call: str) -> None:
    for scope in ApiToken.SCOPES:
        expected = DONE[call] if scope == SCOPES[call] else 403
        assert status(browser, call, **bearer(**scopes(scope))) == expected
    response = with_token(**scopes()).generic(*CALLS[call][:2])
    assert response.json()["detail"] == f"This token lacks the scope {SCOPES[call]!r}."


def test_reuse_shows_a_link_and_so_needs_the_scope_read_too() -> None:
    ShortUrl.objects.update(owner=(owner := user()), hits=7)
    for names, code, hits in [
        (["create"], 403, None),
        (["read"], 403, None),
        (["create", "read"], 200, 7),
    ]:
        response = create(with_token(user=owner, **scopes(*names)), {**NEW, "reuse": True})
        assert (response.status_code, response.json().get("hits")) == (code, hits)


@pytest.mark.parametrize("call", ["create", "change", "delete"])
@pytest.mark.parametrize("token", [None, "b" * 32])
def test_another_site_cannot_use_a_login(browser: Client, call: str, token: str | None) -> None:
    browser.force_login(user(*PERMISSIONS.values(), staff=True))
    csrf(browser)
    headers = {"X-CSRFToken": token} if token else {}
    assert status(browser, call, **headers) == 403
    known = ShortUrl.objects.get()  # and no other
    assert (known.target_url, known.deleted_at) == (TARGET, None)
    # A browser lets any site post a form, and a form is not JSON.
    form = {"csrfmiddlewaretoken": "a" * 32, **NEW}
    assert browser.post("/api/links", form).status_code == 415
    assert browser.post("/api/links", NEW).status_code == 403
