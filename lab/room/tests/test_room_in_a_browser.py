"""A room in browsers: the teacher's, and phones with and without JavaScript."""

import re

from playwright.sync_api import Page, expect

from lab.conftest import NAIVE_PATH
from lab.pages.tests.browser.test_lab_appearance import check_readable
from shorturl.tests.browser.conftest import (  # noqa: F401 - fixtures are found by their names here
    NewPage,
    browser,
    check_width,
    new_page,
    page,
    problems,
    service,
    target_url,
)


def open_room(page: Page) -> None:  # noqa: F811
    """Open a room by the keyboard alone."""
    page.goto(f"{NAIVE_PATH}scheduler/")
    page.get_by_role("link", name="ask a room").press("Enter")
    page.get_by_role("heading", name="Ask a room").wait_for()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/lab/room/lead/$"))


def test_phones_vote_and_the_teacher_takes_the_step(page: Page, new_page: NewPage) -> None:  # noqa: F811
    open_room(page)
    expect(page.get_by_role("button", name="process 1")).to_be_focused()
    plain = new_page(java_script_enabled=False)
    phone = new_page()
    for visitor, process in ((phone, "process 1"), (plain, "process 2")):
        visitor.goto("/lab/room/")
        visitor.get_by_role("button", name=process).press("Enter")
        button = visitor.get_by_role("button", name=process, pressed=True)
        expect(button).to_be_visible()
    expect(page.get_by_text("2 votes")).to_be_visible()  # without a reload
    expect(page.get_by_role("button", name="process 1")).to_be_focused()
    phone.get_by_role("button", name="process 2").press("Enter")
    expect(page.locator("meter").nth(1)).to_have_attribute("value", "2")
    with phone.expect_event("requestfailed"):  # the service is away for a moment
        phone.route("**/lab/room/", lambda route: route.abort())
    phone.unroute("**/lab/room/")
    page.keyboard.press("2")
    expect(page.get_by_text("0 votes")).to_be_visible()
    expect(page.get_by_role("button", name="process 2")).to_be_focused()
    for visitor in (phone, plain):  # the plain one by the refresh of its page
        expect(visitor.get_by_text("You have one vote")).to_be_visible()
    page.get_by_role("button", name="end the room").click()
    for visitor in (phone, plain):
        expect(visitor.get_by_text("No question yet")).to_be_visible()


def test_a_room_is_readable_in_light_and_dark_and_at_every_width(page: Page) -> None:  # noqa: F811
    open_room(page)
    for path in ("/lab/room/", "/lab/room/lead/"):
        page.goto(path)
        check_readable(page)
        for width in (320, 390, 1280, 1920):
            check_width(page, width)
