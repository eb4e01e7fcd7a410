"""Permissions of the API: with a token, with a login, and with neither."""

import json
from functools import cache
from typing import Any

import pytest
from django.test import Client

from shorturl.api.app import api
from shorturl.models import ApiToken, ShortUrl
from shorturl.tests.callers import OTHER, TARGET, create, create_link, make_token, user, with_token

pytestmark = pytest.mark.django_db

NEW = {"target_url": TARGET}
CALLS = {
    "create": ("POST", "/api/links", NEW),
    "create many": ("POST", "/api/links/bulk", {"links": [NEW]}),
    "list": ("GET", "/api/links", None),
    "get": ("GET", "/api/links/known", None),
    "visits": ("GET", "/api/links/known/visits", None),
    "all visits": ("GET", "/api/visits", None),
    "change": ("PATCH", "/api/links/known", {"target_url": OTHER}),
    "delete": ("DELETE", "/api/links/known", None),
}
# The statuses for a caller who may do everything, and for a logged-in user who owns no link.
DONE = dict.fromkeys(CALLS, 200) | {"create": 201, "create many": 201, "delete": 204}
FOR_A_STRANGER = DONE | dict.fromkeys(("get", "visits", "change", "delete"), 404)
SCOPE = dict.fromkeys(CALLS, "read")
SCOPE |= {"create": "create", "create many": "create", "change": "edit", "delete": "delete"}
PERMISSIONS = {"get": "view_shorturl", "change": "change_shorturl", "delete": "delete_shorturl"}
every_call = pytest.mark.parametrize("call", CALLS)


@pytest.fixture(autouse=True)
def known_link(private: None) -> ShortUrl:
    return create_link()


@pytest.fixture
def browser() -> Client:
    return Client(enforce_csrf_checks=True)


@cache
def describe_calls() -> Any:
    return api.get_openapi_schema()["paths"]


def get_status(client: Client, call: str, **headers: str) -> int:
    """Return the status of a call, which is described; an error has a sentence on it, too."""
    method, path, body = CALLS[call]
    data = json.dumps(body) if body else ""
    response = client.generic(method, path, data, content_type="application/json", headers=headers)
    described = describe_calls()[path.replace("known", "{key}")][method.lower()]
    assert response.status_code in described["responses"]
    if response.status_code == 401:
        assert response["WWW-Authenticate"] == "Bearer"
        assert "'Authorization: Bearer <token>'" in response.json()["detail"]
    if response.status_code >= 400:
        assert response.json()["detail"].endswith(".")
    return int(response.status_code)


def get_csrf_header(client: Client) -> dict[str, str]:
    """Give the client the cookie of a CSRF token, and return the header that goes with it."""
    client.cookies["csrftoken"] = "a" * 32
    return {"X-CSRFToken": "a" * 32}


def scopes(*names: str) -> dict[str, bool]:
    """Return the fields of a token with these scopes alone."""
    return {f"can_{name}": name in names for name in ApiToken.SCOPES}


@every_call
def test_a_caller_needs_a_login_and_reaches_no_foreign_link(browser: Client, call: str) -> None:
    assert get_status(browser, call) == 401
    person = user()
    browser.force_login(person)
    assert get_status(browser, call, **get_csrf_header(browser)) == FOR_A_STRANGER[call]
    person.delete()
    assert get_status(browser, call, **get_csrf_header(browser)) == 401


@every_call
def test_a_visitor_creates_and_gets_links_if_both_are_public(
    browser: Client, call: str, settings: Any
) -> None:
    settings.SHORTURL_PUBLIC_CREATE = settings.SHORTURL_PUBLIC_STATS = True
    is_public = call in ("create", "create many", "get", "visits")
    assert get_status(browser, call) == (DONE[call] if is_public else 401)


@every_call
def test_neither_a_login_nor_public_access_makes_up_for_an_invalid_token(
    browser: Client, call: str, settings: Any
) -> None:
    revoked = make_token(revoked_at="2001-01-01T00:00Z")
    settings.SHORTURL_PUBLIC_CREATE = settings.SHORTURL_PUBLIC_STATS = True
    browser.force_login(user(*PERMISSIONS.values(), staff=True))
    valid_token = make_token()
    invalid = ("Bearer unknown", "Bearer", "", "Basic dTpw", "Bearer ä", "Bearer \0")
    for header in (*invalid, f"Bearer {revoked}", valid_token):  # the last one lacks its scheme
        csrf_header = get_csrf_header(browser)
        assert get_status(browser, call, **csrf_header, Authorization=header) == 401, header
    # A valid token needs no CSRF token, even with a login, and counts instead of the login.
    browser.force_login(user())
    assert get_status(browser, call, Authorization=f"bearer   {valid_token}") == DONE[call]


@pytest.mark.parametrize("call", PERMISSIONS)
@pytest.mark.parametrize("staff", [True, False])
def test_staff_have_the_permissions_of_the_admin(browser: Client, call: str, staff: bool) -> None:
    browser.force_login(user(PERMISSIONS[call], staff=staff))
    for other in PERMISSIONS:
        expected = DONE if other == call and staff else FOR_A_STRANGER
        assert get_status(browser, other, **get_csrf_header(browser)) == expected[other]


@every_call
def test_a_token_may_do_what_its_scopes_allow(browser: Client, call: str) -> None:
    for scope in ApiToken.SCOPES:
        expected = DONE[call] if scope == SCOPE[call] else 403
        token = make_token(**scopes(scope))
        assert get_status(browser, call, Authorization=f"Bearer {token}") == expected
    method, path, _ = CALLS[call]
    response = with_token(**scopes()).generic(method, path)
    assert response.json()["detail"] == f"This token lacks the scope {SCOPE[call]!r}."


def test_reuse_shows_a_link_and_so_needs_the_scope_read_too() -> None:
    owner = user()
    ShortUrl.objects.update(owner=owner, hits=7)
    for names, expected in [("create", 403), ("read", 403), ("create read", 200)]:
        token = with_token(user=owner, **scopes(*names.split()))
        response = create(token, {**NEW, "reuse": True})
        assert response.status_code == expected
        assert response.json().get("hits") == (7 if expected == 200 else None)


@pytest.mark.parametrize("call", ["create", "create many", "change", "delete"])
@pytest.mark.parametrize("token", [None, "b" * 32])
def test_another_site_cannot_use_a_login(browser: Client, call: str, token: str | None) -> None:
    browser.force_login(user(*PERMISSIONS.values(), staff=True))
    get_csrf_header(browser)  # the browser has the cookie, and the other site does not know it
    headers = {"X-CSRFToken": token} if token else {}
    assert get_status(browser, call, **headers) == 403
    known = ShortUrl.objects.get()  # which is still the only link
    assert (known.target_url, known.deleted_at) == (TARGET, None)
    # A browser lets any site post a form, and a form is not JSON.
    form = {"csrfmiddlewaretoken": "a" * 32, **NEW}
    assert browser.post("/api/links", form).status_code == 415
    assert browser.post("/api/links", NEW).status_code == 403  # a form without the CSRF token
