"""The admin's pages in a browser, each under the service's own policy."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from shorturl.models import ApiToken, ShortUrl


@pytest.fixture
def operator(page: Page, live_server: LiveServer, client: Client, settings: Settings) -> Page:
    """A page of somebody who may do everything."""
    client.force_login(User.objects.create_superuser("operator"))
    name = settings.SESSION_COOKIE_NAME
    session = client.cookies[name].value
    page.context.add_cookies([{"name": name, "value": session, "url": live_server.url}])
    return page


def test_a_token_from_making_it_to_revoking_it(operator: Page) -> None:
    operator.goto("/admin/")
    operator.get_by_role("link", name="API tokens", exact=True).click()
    operator.get_by_role("link", name="Add API token").click()
    operator.get_by_label("Name").fill("backup")
    operator.get_by_role("button", name="Save", exact=True).click()
    expect(operator.locator("#token")).to_have_text(re.compile(r"shorturl_[\w-]{43}"))
    headers = {"Authorization": f"Bearer {operator.locator('#token').inner_text()}"}
    assert operator.request.get("/api/links", headers=headers).status == 200

    operator.get_by_role("link", name="All API tokens").click()
    operator.get_by_role("row", name="backup").get_by_role("checkbox").check()
    operator.get_by_label("Action:").select_option("Revoke the selected API tokens")
    operator.get_by_role("button", name="Go").click()
    expect(operator.get_by_text("Tokens revoked: 1.")).to_be_visible()
    assert operator.request.get("/api/links", headers=headers).status == 401
    assert ApiToken.objects.get().revoked_at


def test_deleting_several(operator: Page) -> None:
    for key in ("one", "two", "three"):
        ShortUrl.objects.create(key=key, target_url="https://example.com/")
    operator.goto("/admin/shorturl/shorturl/")
    for key in ("one", "two"):
        operator.get_by_role("row", name=key).get_by_role("checkbox").check()
    operator.get_by_label("Action:").select_option("Delete selected short URLs")
    operator.get_by_role("button", name="Go").click()
    expect(operator.get_by_text("the key is never reused")).to_be_visible()
    operator.get_by_role("button", name="Yes, I’m sure").click()
    states = operator.locator("#changelist-filter")
    states.get_by_role("link", name="In service").click()
    expect(operator.locator("th.field-key")).to_have_text(["three"])
    states.get_by_role("link", name="Deleted", exact=True).click()
    expect(operator.locator("th.field-key")).to_have_text(["two", "one"])


def test_every_other_page(operator: Page) -> None:
    """What the browser complains of, the fixtures make an error."""
    ShortUrl.objects.create(pk=1, key="one", target_url="https://example.com/")
    for path in (
        "shorturl/",
        "shorturl/shorturl/1/change/",
        "shorturl/shorturl/1/history/",
        "shorturl/shorturl/1/delete/",
        "shorturl/apitoken/add/",
        "auth/user/",
        "auth/user/add/",
        "auth/group/add/",
        "password_change/",
    ):
        response = operator.goto(f"/admin/{path}")
        assert response
        assert response.status == 200
