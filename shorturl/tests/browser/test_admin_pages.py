"""The admin's pages and /api/docs in a browser, under the service's policy."""

import json
import re

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Locator, Page, expect
from pytest_django import Settings

from shorturl import operations
from shorturl.models import ApiToken, ShortUrl
from shorturl.tests.browser.conftest import LogIn
from shorturl.tests.callers import TARGET, bearer, user

OTHER_PAGES = (
    "shorturl/",
    "shorturl/shorturl/1/change/",
    "shorturl/shorturl/1/history/",
    "shorturl/shorturl/1/delete/",
    "auth/user/",
    "auth/user/add/",
    "auth/group/add/",
    "password_change/",
)


@pytest.mark.exhaustive
def test_a_token_from_making_it_to_revoking_it_and_every_other_page(
    page: Page, log_in: LogIn
) -> None:
    """The fixtures make an error of each problem that the browser reports."""
    log_in(User.objects.create_superuser("operator"))
    page.goto("/admin/")
    page.get_by_role("link", name="API tokens", exact=True).click()
    page.get_by_role("link", name="Add API token").click()
    page.get_by_label("Name").fill("backup")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#token")).to_have_text(re.compile(r"shorturl_[\w-]{43}"))
    headers = {"Authorization": f"Bearer {page.locator('#token').inner_text()}"}
    assert page.request.get("/api/links", headers=headers).status == 200

    page.get_by_role("link", name="All API tokens").click()
    page.get_by_role("row", name="backup").get_by_role("checkbox").check()
    page.get_by_label("Action:").select_option("Revoke the selected API tokens")
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_text("Tokens revoked: 1.")).to_be_visible()
    assert page.request.get("/api/links", headers=headers).status == 401
    assert ApiToken.objects.get().revoked_at

    for number, key in enumerate(("one", "two", "three"), start=1):
        ShortUrl.objects.create(pk=number, key=key, target_url="https://example.com/")
    for path in OTHER_PAGES:
        response = page.goto(f"/admin/{path}")
        assert response
        assert response.status == 200
    page.goto("/admin/shorturl/shorturl/")
    for key in ("one", "two"):
        page.get_by_role("row", name=key).get_by_role("checkbox").check()
    page.get_by_label("Action:").select_option("Delete selected short URLs")
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_text("the key is never reused")).to_be_visible()
    page.get_by_role("button", name="Yes, I’m sure").click()
    states = page.locator("#changelist-filter")
    states.get_by_role("link", name="Live", exact=True).click()
    expect(page.locator("th.field-key")).to_have_text(["three"])
    states.get_by_role("link", name="Deleted", exact=True).click()
    expect(page.locator("th.field-key")).to_have_text(["two", "one"])


@pytest.mark.exhaustive
def test_shows_every_operation_and_calls_it(page: Page, log_in: LogIn, settings: Settings) -> None:
    def try_out(name: str) -> Locator:
        operation = page.locator(f"#operations-links-{name}")
        operation.get_by_role("button", name="Try it out").click()
        return operation

    def answer(operation: Locator) -> Locator:
        operation.get_by_role("button", name="Execute").click()
        return operation.locator(".live-responses-table .response")

    settings.SHORTURL_PUBLIC_CREATE = False
    log_in(user())
    page.goto("/api/docs")
    listed = page.locator(".opblock-summary")
    expect(listed).to_have_count(7)
    expect(listed.first).to_contain_text("Create a short URL")
    for operation in listed.all():
        operation.click()
    expect(page.get_by_text("Authorization: Bearer <token>")).to_be_visible()
    expect(page.get_by_text("This counts no hit.")).to_be_visible()
    page.wait_for_load_state("networkidle")

    create = try_out("create_link")  # with the login
    create.locator("textarea").fill(json.dumps({"target_url": TARGET, "key": "mine"}))
    expect(answer(create)).to_contain_text('"key": "mine"')
    assert ShortUrl.objects.get().target_url == TARGET

    page.get_by_role("button", name="Authorize").first.click()
    value = page.get_by_role("textbox", name="auth-bearer-value")
    value.fill(bearer()["Authorization"].removeprefix("Bearer "))
    value.press("Enter")
    page.get_by_role("button", name="Close", exact=True).first.click()
    expect(answer(try_out("list_links"))).to_contain_text('"key": "mine"')

    for scheme, colour in ("dark", "rgb(28, 32, 34)"), ("light", "rgba(0, 0, 0, 0)"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        expect(page.locator("html")).to_have_css("background-color", colour)


def test_a_long_target_is_not_cut_beside_the_filters(page: Page, log_in: LogIn) -> None:
    target = "https://example.com/" + "long/" * 50
    operations.create(target, key="a-key-of-20-letters-", owner_id=user().pk)
    log_in(User.objects.create_superuser("boss"))
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("/admin/shorturl/shorturl/")
    overflow = "it => it.scrollWidth - it.clientWidth"
    assert page.locator(".results").evaluate(overflow) == 0
