"""The admin's pages and /api/docs in a browser, under the service's policy."""

import json

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from shorturl import operations
from shorturl.models import ShortUrl
from shorturl.tests.browser.conftest import LogIn
from shorturl.tests.callers import TARGET, user

ADMIN_PAGES = (
    *("", "shorturl/", "shorturl/apitoken/add/", "shorturl/shorturl/1/change/"),
    *("shorturl/shorturl/1/history/", "shorturl/shorturl/1/delete/", "auth/user/"),
    *("auth/user/add/", "auth/group/add/", "password_change/"),
)


@pytest.mark.exhaustive
def test_the_admin_works_under_the_policy(page: Page, log_in: LogIn) -> None:
    """The fixtures make an error of each problem that the browser reports."""
    log_in(User.objects.create_superuser("operator"))
    for number, key in enumerate(("one", "two", "three"), start=1):
        ShortUrl.objects.create(pk=number, key=key, target_url="https://example.com/")
    for path in ADMIN_PAGES:
        response = page.goto(f"/admin/{path}")
        assert response
        assert response.status == 200
    page.goto("/admin/shorturl/shorturl/")
    for key in ("one", "two"):
        page.get_by_role("row", name=key).get_by_role("checkbox").check()
    page.get_by_label("Action:").select_option("Delete selected short URLs")
    page.get_by_role("button", name="Go").click()
    page.get_by_role("button", name="Yes, I’m sure").click()
    states = page.locator("[data-filter-title='deleted at']")
    states.get_by_role("link", name="Empty", exact=True).click()
    expect(page.locator("th.field-key")).to_have_text(["three"])


def test_a_long_target_is_not_cut_beside_the_filters(page: Page, log_in: LogIn) -> None:
    target = "https://example.com/" + "long/" * 50
    operations.create(target, key="a-key-of-20-letters-", owner_id=user().pk)
    log_in(User.objects.create_superuser("boss"))
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("/admin/shorturl/shorturl/")
    overflow = "it => it.scrollWidth - it.clientWidth"
    assert page.locator(".results").evaluate(overflow) == 0


def test_the_docs_of_the_api_have_the_header_and_send_calls(page: Page, log_in: LogIn) -> None:
    log_in(user())
    page.goto("/api/docs")
    expect(page.get_by_role("banner").get_by_role("link", name="My links")).to_be_visible()
    expect(page.locator(".opblock-summary")).to_have_count(7)
    create = page.locator("#operations-links-create_link")
    create.locator(".opblock-summary-control").click()
    create.get_by_role("button", name="Try it out").click()
    create.locator("textarea").fill(json.dumps({"target_url": TARGET, "key": "mine"}))
    create.get_by_role("button", name="Execute").click()
    expect(create.locator(".live-responses-table .response")).to_contain_text('"key": "mine"')
    assert ShortUrl.objects.get().target_url == TARGET
    for scheme, colour in (("dark", "rgb(16, 22, 21)"), ("light", "rgb(246, 247, 246)")):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        expect(page.locator("body")).to_have_css("background-color", colour)
