"""A user with a browser: create, copy, follow, see the hit."""

import re

from django.test import Client
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from shorturl import operations
from shorturl.models import ShortUrl
from shorturl.tests.browser.conftest import NewPage
from shorturl.tests.test_redirect import LOCATIONS
from shorturl.tests.test_validators import HOSTS


def shorten(page: Page, target_url: str, key: str = "") -> None:
    page.goto("/")
    page.get_by_label("Target URL").fill(target_url)
    page.get_by_label("Custom key").fill(key)
    page.get_by_role("button", name="Shorten").click()


def test_create_copy_follow_and_see_the_hit(
    page: Page, live_server: LiveServer, target_url: str
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    shorten(page, target_url)
    expect(page.get_by_text("Your short URL is ready.")).to_be_visible()
    short_url = page.get_by_label("Short URL").input_value()
    assert re.fullmatch(rf"{live_server.url}/[A-Za-z0-9]{{7}}", short_url)

    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == short_url
    code = page.get_by_role("img", name="QR code of")
    assert code.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
    page.reload()
    expect(page.get_by_text("Your short URL is ready.")).to_have_count(0)
    assert ShortUrl.objects.count() == 1

    page.get_by_role("link", name="Follow it").click()
    expect(page).to_have_url(target_url)
    expect(page.get_by_role("heading", name="Target")).to_be_visible()

    page.goto(f"{short_url}/stats")
    expect(page.locator("dt:text-is('Hits') + dd")).to_have_text("1")
    expect(page.get_by_role("link", name=target_url)).to_be_visible()
    for link in page.locator("footer a").all():
        # Not GET, for which the lab starts to explore everything, beside all tests that follow.
        assert page.request.head(str(link.get_attribute("href"))).status == 200


def test_a_taken_key_and_a_clipboard_that_is_closed(page: Page, target_url: str) -> None:
    """What is wrong is said by its field; what cannot be copied is selected, as without HTTPS."""
    page.add_init_script("""
        delete Navigator.prototype.clipboard;
        document.execCommand = () => false;
    """)
    operations.create("https://example.com/", key="spring")
    shorten(page, target_url, "spring")
    key = page.get_by_label("Custom key")
    expect(key).to_be_focused()
    expect(key).to_have_attribute("aria-invalid", "true")
    expect(key).to_have_accessible_description(re.compile("The key 'spring' is taken."))
    expect(page.get_by_label("Target URL")).to_have_value(target_url)
    key.fill("summer")
    key.press("Enter")
    expect(page.get_by_role("heading", name="/summer")).to_be_visible()
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Press Ctrl+C to copy")).to_be_visible()
    field = page.get_by_label("Short URL")
    assert page.evaluate("getSelection().toString()") == field.input_value()


def test_keyboard_only(page: Page, target_url: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/")
    expect(page.get_by_label("Target URL")).to_be_focused()
    page.keyboard.type(target_url)
    page.keyboard.press("Tab")
    page.keyboard.type("spring")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Limit and expiry")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="/spring")).to_be_visible()

    order = [
        page.get_by_role("link", name="Skip to the content"),
        page.get_by_role("link", name="shorturl", exact=True),
        page.get_by_role("link", name="Log in"),
        page.get_by_label("Short URL"),
        page.get_by_role("button", name="Copy"),
        page.get_by_role("link", name="Follow it"),
        page.get_by_role("link", name="QR code of"),
        page.get_by_role("link", name=target_url),
        page.get_by_role("link", name="Shorten another URL"),
        page.get_by_role("link", name="Lab"),
        page.get_by_role("link", name="API"),
        page.get_by_role("link", name="Admin"),
    ]
    for stop in order:
        page.keyboard.press("Tab")
        expect(stop).to_be_focused()
        expect(stop).to_be_in_viewport()
        assert stop.evaluate("it => getComputedStyle(it).outlineStyle") == "solid"

    page.reload()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Short URL")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Copied")).to_be_visible()


def test_without_javascript(new_page: NewPage, live_server: LiveServer, target_url: str) -> None:
    page = new_page(java_script_enabled=False)
    shorten(page, target_url, "spring")
    expect(page.get_by_label("Short URL")).to_have_value(f"{live_server.url}/spring")
    expect(page.get_by_text("Copy", exact=True)).to_be_hidden()
    page.goto("/spring")
    assert page.url == target_url
    page.goto("/spring/stats")
    expect(page.locator("dt:text-is('Hits') + dd")).to_have_text("1")


def test_the_policy_is_in_force(page: Page, problems: list[str]) -> None:
    page.goto("/")
    for inline in ("style", "script"):
        with page.expect_console_message(lambda message: "policy violation" in message.text):
            page.evaluate(
                "inline => document.body.append(Object.assign("
                "document.createElement(inline), { textContent: '1' }))",
                inline,
            )
        assert problems
        problems.clear()


def test_what_the_service_makes_of_a_url_is_what_a_browser_makes_of_it(
    page: Page, client: Client
) -> None:
    for host, encoded in HOSTS.items():
        bracketed = f"[{host}]" if ":" in host else host
        hostname = page.evaluate("host => new URL(`https://${host}/`).hostname", bracketed)
        assert hostname.strip("[]") == encoded, host
    # It goes to the same place, whether it is given the target or the Location.
    href = "url => new URL(url).href"
    for number, target_url in enumerate(LOCATIONS):
        operations.create(target_url, key=str(number))
        location = client.get(f"/{number}")["Location"]
        assert page.evaluate(href, target_url) == page.evaluate(href, location)
