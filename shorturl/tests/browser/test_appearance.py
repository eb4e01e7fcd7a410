"""How the pages look: on narrow screens, in light and dark, with nothing cut off."""

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from shorturl import operations
from shorturl.models import ShortUrl
from shorturl.tests.browser.conftest import LogIn, NewPage, barriers, fits
from shorturl.tests.callers import bearer

PATHS = ["/", "/login", "/account/reset", "/a-key-of-20-letters-/stats", "/no/such/page"]


@pytest.fixture(autouse=True)
def short_url(service: None) -> ShortUrl:
    return operations.create("https://example.com/" + "long" * 400, key="a-key-of-20-letters-")


def brightness(page: Page) -> int:
    colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))


def look_at(page: Page, paths: list[str]) -> None:
    for path in paths:
        page.goto(path)
        fits(page, 1200)
        page.emulate_media(color_scheme="light")
        assert brightness(page) > 3 * 200
        assert barriers(page) == []
        page.emulate_media(color_scheme="dark")
        assert brightness(page) < 3 * 55
        assert barriers(page, runOnly=["color-contrast"]) == []
        fits(page, 320)


def test_wide_and_narrow_light_and_dark(new_page: NewPage) -> None:
    """Both have enough contrast, and nothing moves for those who do not want it."""
    page = new_page(reduced_motion="reduce")
    look_at(page, PATHS)
    page.goto("/")
    page.get_by_label("Target URL").fill("x" * 300)
    page.get_by_label("Custom key").fill("?" * 300)
    page.get_by_role("button", name="Shorten").click()
    expect(page.locator(".errorlist")).to_have_count(2)
    fits(page, 320)


def test_ones_own_links(page: Page, log_in: LogIn, short_url: ShortUrl) -> None:
    owner = User.objects.create_user("somebody-with-quite-a-long-name")
    ShortUrl.objects.update(owner=owner)
    log_in(owner)
    page.emulate_media(reduced_motion="reduce")
    own = f"/links/{short_url.key}"
    bearer("a-name-of-a-hundred-letters-" + "x" * 72, user=owner)
    look_at(page, ["/links", own, f"{own}/delete", f"/{short_url.key}/stats"])
    look_at(page, ["/account", "/account/password"])
    # By keyboard alone.
    page.goto("/links")
    page.get_by_label("Part of the key").focus()
    page.keyboard.type("20-letters")
    page.keyboard.press("Enter")
    page.get_by_role("link", name=f"Delete /{short_url.key}").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=f"Delete /{short_url.key}?")).to_be_visible()
    page.get_by_role("button", name="Delete").press("Enter")
    expect(page.get_by_text(f"/{short_url.key} is deleted.")).to_be_visible()
