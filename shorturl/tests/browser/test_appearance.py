"""How the pages look: on narrow screens, in the dark, with nothing cut off."""

import pytest
from playwright.sync_api import Page, expect

from shorturl import operations
from shorturl.models import ShortUrl
from shorturl.tests.browser.conftest import NewPage

PATHS = ["/", "/login", "/a-key-of-20-letters-/stats", "/no/such/page"]


@pytest.fixture(autouse=True)
def short_url(service: None) -> ShortUrl:
    return operations.create("https://example.com/" + "long" * 400, key="a-key-of-20-letters-")


@pytest.mark.parametrize("width", [320, 360, 1200])
def test_nothing_is_wider_than_the_window(new_page: NewPage, width: int) -> None:
    page = new_page(viewport={"width": width, "height": 640})
    for path in PATHS:
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") == width, path


def test_error_messages_fit_too(new_page: NewPage) -> None:
    page = new_page(viewport={"width": 320, "height": 640})
    page.goto("/")
    page.get_by_label("Target URL").fill("x" * 300)
    page.get_by_label("Custom key").fill("?" * 300)
    page.get_by_role("button", name="Shorten").click()
    expect(page.locator(".errorlist")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") == 320


def brightness(page: Page) -> int:
    colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))


@pytest.mark.parametrize("path", PATHS)
def test_light_and_dark(new_page: NewPage, path: str) -> None:
    light, dark = new_page(color_scheme="light"), new_page(color_scheme="dark")
    light.goto(path)
    dark.goto(path)
    assert light.screenshot() != dark.screenshot()
    assert brightness(light) > 3 * 200
    assert brightness(dark) < 3 * 55


def test_nothing_moves_for_who_does_not_want_it(new_page: NewPage) -> None:
    page = new_page(reduced_motion="reduce")
    page.goto("/")
    duration = "button => getComputedStyle(button).transitionDuration"
    assert page.get_by_role("button", name="Shorten").evaluate(duration) == "0s"
