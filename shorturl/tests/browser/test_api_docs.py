"""/api/docs in a browser: readable under the service's own policy, with nothing from elsewhere."""

import json

import pytest
from playwright.sync_api import Locator, Page, expect
from pytest_django import Settings

from shorturl.models import ShortUrl
from shorturl.tests.browser.conftest import LogIn
from shorturl.tests.callers import TARGET, bearer, user


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
    operations = page.locator(".opblock-summary")
    expect(operations).to_have_count(7)
    for operation in operations.all():
        operation.click()
    expect(page.get_by_text("Authorization: Bearer <token>")).to_be_visible()
    expect(page.get_by_text("This counts no hit.")).to_be_visible()
    page.wait_for_load_state("networkidle")

    create = try_out("create_link")  # as the one who is logged in
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
