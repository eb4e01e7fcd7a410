"""What only a browser shows: focus, clipboard, time zones, and pages without JavaScript."""

import json
import re
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from shorturl.models import ShortUrl
from shorturl.tests.browser.conftest import LogIn, NewPage
from shorturl.tests.callers import TARGET, create_link, user
from shorturl.tests.links.test_validators import HOSTS
from shorturl.tests.pages.test_redirect import LOCATIONS


def shorten(page: Page, target_url: str, key: str = "") -> None:
    page.goto("/")
    page.get_by_label("Target URL").fill(target_url)
    page.get_by_label("Custom key").fill(key)
    page.get_by_role("button", name="Shorten").click()


def test_create_copy_follow_and_see_the_hit_by_keyboard(
    page: Page, live_server: LiveServer, target_url: str
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/")
    expect(page.get_by_label("Target URL")).to_be_focused()
    page.keyboard.type(target_url)
    page.keyboard.press("Tab")
    page.keyboard.type("spring")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Your short URL is ready.")).to_be_visible()
    short_url = f"{live_server.url}/spring"
    code = page.get_by_role("img", name="QR code of")
    assert code.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0

    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    field = page.get_by_label("Short URL")
    expect(field).to_be_focused()
    expect(field).to_have_value(short_url)
    assert field.evaluate("field => getComputedStyle(field).outlineStyle") == "solid"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == short_url

    page.get_by_role("link", name="Follow it").press("Enter")
    expect(page).to_have_url(target_url)
    page.goto(f"{short_url}/stats")
    expect(page.locator("dt:text-is('Hits') + dd")).to_have_text("1")
    for link in page.locator("footer a").all():
        # Not GET, for which the lab would start to explore every race.
        assert page.request.head(str(link.get_attribute("href"))).status == 200


def test_an_error_is_at_its_field_and_a_text_that_cannot_be_copied_is_selected(
    page: Page, target_url: str
) -> None:
    """Without HTTPS a browser has no clipboard."""
    page.add_init_script("""
        delete Navigator.prototype.clipboard;
        document.execCommand = () => false;
    """)
    create_link("spring")
    shorten(page, target_url, "spring")
    key = page.get_by_label("Custom key")
    expect(key).to_be_focused()
    expect(key).to_have_attribute("aria-invalid", "true")
    expect(key).to_have_accessible_description(re.compile("The key 'spring' is taken."))
    key.fill("summer")
    key.press("Enter")
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Press Ctrl+C to copy")).to_be_visible()
    field = page.get_by_label("Short URL")
    assert page.evaluate("getSelection().toString()") == field.input_value()


def test_a_new_token_is_copied_and_stays_in_its_field_without_a_clipboard(
    page: Page, log_in: LogIn
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    log_in(user())
    page.goto("/account")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Make a token").click()
    field = page.get_by_label("Token")
    token = field.input_value()
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_text(f"Copied {token}")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == token
    page.evaluate("delete Navigator.prototype.clipboard")
    page.get_by_role("button", name="Copy").click()
    assert page.evaluate("getSelection().toString()") == token
    expect(field).to_have_value(token)


def test_the_address_of_a_row_is_selected_where_it_cannot_be_copied(
    page: Page, live_server: LiveServer, log_in: LogIn
) -> None:
    owner = user()
    create_link("a", owner=owner)
    log_in(owner)
    page.add_init_script("delete Navigator.prototype.clipboard")
    page.goto("/links")
    page.get_by_role("button", name="Copy /a").click()
    field = page.get_by_label("Short URL")
    selected = field.evaluate(
        "(field) => field.value.slice(field.selectionStart, field.selectionEnd)"
    )
    assert selected == f"{live_server.url}/a"
    page.get_by_label("Select /a").check()
    page.get_by_role("button", name="Delete the selected links").click()
    expect(page.get_by_role("main")).to_contain_text("/a")


def test_an_expiry_is_typed_and_shown_in_the_readers_time_zone(
    new_page: NewPage, target_url: str
) -> None:
    """Without JavaScript an expiry is shown in UTC. Each page names the zone."""
    page = new_page(timezone_id="America/New_York")
    page.goto("/")
    page.get_by_label("Target URL").fill(target_url)
    page.get_by_label("Custom key").fill("spring")
    page.get_by_text("Title, tags, limit, expiry and parameters").click()
    expect(page.get_by_label("Never")).to_be_checked()
    expiry = page.get_by_label("Time", exact=True)
    expect(expiry).to_have_accessible_description(re.compile("In America/New York"))
    expiry.fill("2090-07-01T10:30")
    expect(page.get_by_label("At the time")).to_be_checked()
    page.get_by_label("Limit").fill("0")
    page.get_by_role("button", name="Shorten").click()
    expect(page.get_by_label("Limit")).to_have_attribute("aria-invalid", "true")
    expect(expiry).to_have_value("2090-07-01T10:30")  # of a form that came back from the server
    page.get_by_label("Limit").fill("")
    page.get_by_role("button", name="Shorten").click()
    expect(page.locator("dt:text-is('Expires') + dd")).to_have_text(
        "1 Jul 2090, 10:30 America/New York"
    )
    assert ShortUrl.objects.get().expires_at == datetime(2090, 7, 1, 14, 30, tzinfo=UTC)
    page = new_page(timezone_id="America/New_York", java_script_enabled=False)
    page.goto("/spring/stats")
    expect(page.locator("dt:text-is('Expires') + dd")).to_have_text("1 Jul 2090, 14:30 UTC")


def test_an_untouched_expiry_in_an_hour_that_comes_twice_stays(
    new_page: NewPage, log_in: LogIn
) -> None:
    """Clocks in Berlin show 02:30 at 00:30Z and at 01:30Z."""
    owner, expiry = user(), datetime(2027, 10, 31, 1, 30, tzinfo=UTC)
    create_link("a", owner=owner, expires_at=expiry, created_at="2026-11-28T23:30Z")
    page = new_page(timezone_id="Europe/Berlin")
    log_in(owner, page)
    # First the title is changed, and then the expiry.
    for field, value, expected_expiry in [
        ("title", "Changed", expiry),
        ("expires_at", "2027-11-01T02:30", datetime(2027, 11, 1, 1, 30, tzinfo=UTC)),
    ]:
        page.goto("/links/a")
        expect(page.get_by_label("Time", exact=True)).to_have_value("2027-10-31T02:30")
        page.locator(f"#id_{field}").fill(value)
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("/a is changed.")).to_be_visible()
        expect(page.locator("time").first).to_have_text("29 Nov 2026")  # when it was created
        link = ShortUrl.objects.get()
        assert (link.title, link.expires_at) == ("Changed", expected_expiry)


def test_ten_links_fit_on_one_screen(page: Page, log_in: LogIn) -> None:
    owner = user()
    values = {"title": "A title " * 20, "tags": ["catalogue", "spring"], "max_hits": 10_000}
    for number in range(12):
        target_url = "https://example.com/" + "long" * 40
        create_link(f"a-key-of-20-letter{number:02}", target_url=target_url, owner=owner, **values)
    log_in(owner)
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("/links")
    expect(page.get_by_role("listitem").nth(9)).to_be_in_viewport(ratio=1)  # the tenth


def test_own_tags_are_suggested_behind_the_first_one(page: Page, log_in: LogIn) -> None:
    owner = user()
    create_link("one", owner=owner, tags=["spring", "news"])
    log_in(owner)
    page.goto("/links/one")
    suggested = "list => [...list.options].map((option) => option.value)"
    for typed, values in {"": ["spring", "news"], "News; s": ["News; spring"]}.items():
        page.get_by_label("Tags").fill(typed)
        assert page.locator("#used-tags").evaluate(suggested) == values


def test_a_link_is_created_without_javascript(
    new_page: NewPage, live_server: LiveServer, target_url: str
) -> None:
    page = new_page(java_script_enabled=False)
    shorten(page, target_url, "spring")
    expect(page.get_by_label("Short URL")).to_have_value(f"{live_server.url}/spring")
    expect(page.get_by_text("Copy", exact=True)).to_be_hidden()


def test_the_service_encodes_a_url_as_a_browser_does(page: Page, client: Client) -> None:
    # test_validators.py checks that the service encodes these hosts so.
    for host, encoded in HOSTS.items():
        bracketed = f"[{host}]" if ":" in host else host
        hostname = page.evaluate("host => new URL(`https://${host}/`).hostname", bracketed)
        assert hostname.strip("[]") == encoded, host
    # Target and Location are the same URL for the browser.
    href = "url => new URL(url).href"
    for number, target_url in enumerate(LOCATIONS):
        create_link(str(number), target_url=target_url)
        location = client.get(f"/{number}")["Location"]
        assert page.evaluate(href, target_url) == page.evaluate(href, location)


def test_selected_links_have_a_button_to_delete_them(page: Page, log_in: LogIn) -> None:
    owner = user()
    create_link("one", owner=owner)
    log_in(owner)
    page.goto("/links")
    delete = page.get_by_role("button", name="Delete the selected links")
    expect(delete).to_be_hidden()
    page.get_by_label("Select /one").check()
    delete.click()
    expect(page.get_by_role("heading", name="Delete /one?")).to_be_visible()


ADMIN_PAGES = (
    *("", "shorturl/", "shorturl/apitoken/add/", "shorturl/shorturl/1/change/"),
    *("shorturl/shorturl/1/history/", "shorturl/shorturl/1/delete/", "auth/user/"),
    *("auth/user/add/", "auth/group/add/", "password_change/"),
)


@pytest.mark.exhaustive
def test_the_admin_works_under_the_content_security_policy(page: Page, log_in: LogIn) -> None:
    """The fixtures make an error of each problem that the browser reports."""
    log_in(User.objects.create_superuser("operator"))
    for number, key in enumerate(("one", "two", "three"), start=1):
        create_link(key, pk=number)
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
    target_url = "https://example.com/" + "long/" * 50
    create_link("a-key-of-20-letters-", target_url=target_url, owner=user())
    log_in(User.objects.create_superuser("boss"))
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("/admin/shorturl/shorturl/")
    overflow = "it => it.scrollWidth - it.clientWidth"
    assert page.locator(".results").evaluate(overflow) == 0
    page.set_viewport_size({"width": 390, "height": 800})
    action = page.get_by_label("Action:").bounding_box()
    assert action
    assert action["width"] > 200  # pixels: it is not squeezed


def test_the_docs_of_the_api_look_like_the_site_and_send_calls(page: Page, log_in: LogIn) -> None:
    log_in(user())
    page.emulate_media(color_scheme="dark")
    page.goto("/api/docs")
    expect(page.get_by_role("banner").get_by_role("link", name="My links")).to_be_visible()
    expect(page.locator(".opblock-summary")).to_have_count(8)  # calls
    create = page.locator("#operations-links-create_link")
    create.locator(".opblock-summary-control").click()
    create.get_by_role("button", name="Try it out").click()
    create.locator("textarea").fill(json.dumps({"target_url": TARGET, "key": "mine"}))
    create.get_by_role("button", name="Execute").click()
    expect(create.locator(".live-responses-table .response")).to_contain_text('"key": "mine"')
    assert ShortUrl.objects.get().target_url == TARGET
    for scheme, colour in (("dark", "rgb(16, 22, 21)"), ("light", "rgb(246, 247, 246)")):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        expect(page.locator("html.dark-mode")).to_have_count(int(scheme == "dark"))
        expect(page.locator("body")).to_have_css("background-color", colour)
    schema = page.locator(".json-schema-2020-12 button").first  # not green as the site's buttons
    expect(schema).to_have_css("background-color", "rgba(0, 0, 0, 0)")
