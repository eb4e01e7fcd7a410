"""Browser tests of a user: create, copy, follow, see the hit; and from an invitation to a token."""

import re
from datetime import UTC, datetime
from io import StringIO
from urllib.parse import urlsplit

from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from playwright.sync_api import Page, expect
from pytest_django.live_server_helper import LiveServer

from shorturl import operations
from shorturl.models import ShortUrl
from shorturl.tests.browser.conftest import LogIn, NewPage, barriers, fits
from shorturl.tests.links.test_validators import HOSTS
from shorturl.tests.pages.test_redirect import LOCATIONS


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
        # Not GET, for which the lab would start to explore every race.
        assert page.request.head(str(link.get_attribute("href"))).status == 200


def test_a_taken_key_and_a_clipboard_that_is_closed(page: Page, target_url: str) -> None:
    """The error is at its field. A text that cannot be copied is selected, as without HTTPS."""
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


def test_an_expiry_in_the_readers_time_zone(new_page: NewPage, target_url: str) -> None:
    """It is typed and shown in it; without JavaScript in UTC. Each page names the zone."""
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
    page.goto("/")
    page.get_by_text("Title, tags, limit, expiry and parameters").click()
    time = page.get_by_label("Time", exact=True)
    expect(time).to_have_accessible_description(re.compile("In UTC"))


def test_an_expiry_in_an_hour_that_comes_twice(new_page: NewPage, log_in: LogIn) -> None:
    """Clocks in Berlin show 02:30 at 00:30Z and at 01:30Z: an expiry that is untouched stays."""
    owner, expiry = User.objects.create_user("somebody"), datetime(2027, 10, 31, 1, 30, tzinfo=UTC)
    operations.create("https://example.com/", key="a", owner_id=owner.pk, expires_at=expiry)
    page = new_page(timezone_id="Europe/Berlin")
    log_in(owner, page)
    page.goto("/links/a")
    expect(page.get_by_label("Time", exact=True)).to_have_value("2027-10-31T02:30")
    page.get_by_label("Title").fill("Changed")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("/a is changed.")).to_be_visible()
    link = ShortUrl.objects.get()
    assert (link.title, link.expires_at) == ("Changed", expiry)
    page.goto("/links/a")
    page.get_by_label("Time", exact=True).fill("2027-11-01T02:30")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("/a is changed.")).to_be_visible()
    assert ShortUrl.objects.get().expires_at == datetime(2027, 11, 1, 1, 30, tzinfo=UTC)


def test_a_link_of_the_list_is_created_on_it(
    page: Page, log_in: LogIn, live_server: LiveServer, target_url: str
) -> None:
    """The error is at its field, and the list stays; the new link is on top, with its button."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    owner = User.objects.create_user("somebody")
    operations.create("https://example.com/", key="old", owner_id=owner.pk)
    log_in(owner)
    page.goto("/links")
    target = page.get_by_label("Target URL")
    target.fill("nowhere:x")
    target.press("Enter")
    expect(target).to_be_focused()
    expect(target).to_have_accessible_description(re.compile("start it with http"))
    expect(page.get_by_role("link", name="/old", exact=True)).to_be_visible()
    target.fill(target_url)
    page.get_by_text("Key, title, tags").click()
    page.get_by_label("Custom key").fill("new")
    page.get_by_role("button", name="Shorten").click()
    expect(page.get_by_text("Your short URL is ready")).to_be_visible()
    new = page.locator(".links li").first
    new.get_by_role("button", name="Copy /new").click()
    assert page.evaluate("navigator.clipboard.readText()") == f"{live_server.url}/new"


def test_ten_links_fit_on_one_screen(page: Page, log_in: LogIn, live_server: LiveServer) -> None:
    owner = User.objects.create_user("somebody")
    for number in range(12):
        operations.create(
            "https://example.com/" + "long" * 40,
            key=f"a-key-of-20-letter{number:02}",
            owner_id=owner.pk,
            title="A title " * 20,
            tags=["catalogue", "spring"],
            max_hits=10_000,
            expires_at=datetime(2090, 7, 1, tzinfo=UTC),
        )
    log_in(owner)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("/links")
    expect(page.get_by_role("listitem").nth(9)).to_be_in_viewport(ratio=1)
    page.get_by_role("button", name="Copy /a-key-of-20-letter11").click()
    expect(page.get_by_text("Copied")).to_be_in_viewport()
    copied = f"{live_server.url}/a-key-of-20-letter11"
    assert page.evaluate("navigator.clipboard.readText()") == copied


def test_keyboard_only(page: Page, target_url: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/")
    expect(page.get_by_label("Target URL")).to_be_focused()
    page.keyboard.type(target_url)
    page.keyboard.press("Tab")
    page.keyboard.type("spring")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Title, tags, limit, expiry and parameters")).to_be_focused()
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
        page.get_by_role("link", name="Preview"),
        page.get_by_role("link", name="QR code of"),
        page.get_by_role("link", name=target_url),
        page.get_by_role("link", name="Shorten another URL"),
        page.get_by_role("link", name="Lab"),
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
        with page.expect_console_message(lambda message: "Content Security Policy" in message.text):
            page.evaluate(
                "inline => document.body.append(Object.assign("
                "document.createElement(inline), { textContent: '1' }))",
                inline,
            )
        assert problems
        problems.clear()


def test_the_service_encodes_a_url_as_a_browser_does(page: Page, client: Client) -> None:
    for host, encoded in HOSTS.items():
        bracketed = f"[{host}]" if ":" in host else host
        hostname = page.evaluate("host => new URL(`https://${host}/`).hostname", bracketed)
        assert hostname.strip("[]") == encoded, host
    # Target and Location are the same URL for the browser.
    href = "url => new URL(url).href"
    for number, target_url in enumerate(LOCATIONS):
        operations.create(target_url, key=str(number))
        location = client.get(f"/{number}")["Location"]
        assert page.evaluate(href, target_url) == page.evaluate(href, location)


def test_an_invited_user_chooses_a_password_and_makes_and_revokes_a_token(page: Page) -> None:
    password = "a new one for today"
    out = StringIO()
    call_command("invite", "ann", stdout=out, stderr=StringIO())
    page.goto(urlsplit(out.getvalue().strip()).path)
    assert barriers(page) == []
    page.get_by_label("New password", exact=True).fill(password)
    page.get_by_label("New password confirmation").fill(password)
    page.keyboard.press("Enter")
    expect(page.get_by_text("Your password is set")).to_be_visible()

    page.get_by_role("main").get_by_role("link", name="Log in").press("Enter")
    page.get_by_label("Username").fill("ann")
    page.get_by_label("Password").fill(password)
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Account", exact=True).press("Enter")
    page.get_by_label("Name").fill("laptop")
    page.get_by_label("Can delete").press("Space")
    page.get_by_role("button", name="Make a token").press("Enter")
    token = page.get_by_label("Token")
    expect(token).to_have_value(re.compile(r"shorturl_[\w-]{43}"))
    assert barriers(page) == []
    fits(page, 320)
    headers = {"Authorization": f"Bearer {token.input_value()}"}
    assert page.request.get("/api/links", headers=headers).status == 200

    page.get_by_role("link", name="Account", exact=True).press("Enter")
    expect(page.get_by_text("may create, read, edit;")).to_be_visible()
    page.get_by_role("button", name="Revoke laptop").press("Enter")
    expect(page.get_by_text("The token “laptop” is revoked.")).to_be_visible()
    assert page.request.get("/api/links", headers=headers).status == 401


def test_selected_links_are_deleted_together(page: Page, log_in: LogIn) -> None:
    owner = User.objects.create_user("somebody")
    for key in ("one", "two", "three"):
        operations.create("https://example.com/", key=key, owner_id=owner.pk)
    log_in(owner)
    page.goto("/links")
    delete = page.get_by_role("button", name="Delete the selected links")
    expect(delete).to_be_hidden()
    page.get_by_label("Select /one").check()
    page.get_by_label("Select /three").check()
    delete.click()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("2 links are deleted.")).to_be_visible()
    expect(page.get_by_role("link", name="/two", exact=True)).to_be_visible()


def test_the_header_stays_in_its_place(page: Page, log_in: LogIn) -> None:
    log_in(User.objects.create_user("somebody"))
    page.set_viewport_size({"width": 1500, "height": 800})
    places = set()
    for path in ("/", "/links", "/account", "/no/such/page", "/lab/museum/"):
        page.goto(path)
        box = page.get_by_role("banner").bounding_box()
        assert box
        places.add((box["x"], box["width"]))
    assert len(places) == 1
