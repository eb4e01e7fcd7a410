"""/api/docs in a browser: readable under the service's own policy, with nothing from elsewhere."""

import json

from django.test import Client
from playwright.sync_api import Locator, Page, expect
from pytest_django import Settings

from shorturl.models import ShortUrl
from shorturl.tests.api import TARGET, bearer, user


def open_operation(page: Page, name: str) -> Locator:
    """Open the docs and one of the operations, ready to be tried out."""
    page.goto("/api/docs")
    operation = page.locator(f"#operations-links-{name}")
    operation.click()
    operation.get_by_role("button", name="Try it out").click()
    return operation


def execute(operation: Locator) -> Locator:
    """Send the call and return the part of the page that shows the answer."""
    operation.get_by_role("button", name="Execute").click()
    return operation.locator(".live-responses-table .response")


def test_shows_every_operation(page: Page) -> None:
    page.goto("/api/docs")
    operations = page.locator(".opblock-summary")
    expect(operations).to_have_count(5)
    for operation in operations.all():
        operation.click()
    expect(page.get_by_text("Authorization: Bearer <token>")).to_be_visible()
    expect(page.get_by_text("This counts no hit.")).to_be_visible()
    page.wait_for_load_state("networkidle")


def test_is_dark_where_that_is_preferred(page: Page) -> None:
    page.goto("/api/docs")
    for scheme, colour in ("dark", "rgb(28, 32, 34)"), ("light", "rgba(0, 0, 0, 0)"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        expect(page.locator("html")).to_have_css("background-color", colour)


def test_a_call_with_a_token(page: Page) -> None:
    ShortUrl.objects.create(key="known", target_url=TARGET)
    operation = open_operation(page, "list_links")
    page.get_by_role("button", name="Authorize").first.click()
    value = page.get_by_role("textbox", name="auth-bearer-value")
    value.fill(bearer()["Authorization"].removeprefix("Bearer "))
    value.press("Enter")
    page.get_by_role("button", name="Close", exact=True).first.click()
    expect(execute(operation)).to_contain_text('"key": "known"')


def test_a_call_of_somebody_who_is_logged_in(
    page: Page, client: Client, settings: Settings
) -> None:
    settings.SHORTURL_PUBLIC_CREATE = False
    client.force_login(user())
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    page.goto("/api/docs")
    page.context.add_cookies(
        [{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": page.url}]
    )
    operation = open_operation(page, "create_link")
    operation.get_by_role("textbox").fill(json.dumps({"target_url": TARGET, "key": "mine"}))
    expect(execute(operation)).to_contain_text('"key": "mine"')
    assert ShortUrl.objects.get().target_url == TARGET
