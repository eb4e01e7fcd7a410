"""The pages narrow and wide, in light and dark; and the chart of visits."""

import re
from datetime import timedelta
from itertools import pairwise

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Page, expect

from shorturl import operations
from shorturl.management.commands import demo
from shorturl.models import RecentVisits, ShortUrl
from shorturl.tests.browser.conftest import LogIn, NewPage, barriers, fits
from shorturl.tests.callers import bearer
from shorturl.visits.roll_up import roll_up_visits

PATHS = ["/", "/account/login/", "/account/password_reset/", "/no/such/page"]


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
    """Light and dark have enough contrast. Nothing moves with reduced motion."""
    page = new_page(reduced_motion="reduce")
    look_at(page, PATHS)
    page.goto("/")
    page.get_by_label("Target URL").fill("x" * 300)
    page.get_by_label("Custom key").fill("?" * 300)
    page.get_by_role("button", name="Shorten").click()
    expect(page.locator(".errorlist")).to_have_count(2)
    fits(page, 320)


def test_the_pages_of_a_user(page: Page, log_in: LogIn, short_url: ShortUrl) -> None:
    owner = User.objects.create_user("somebody-with-quite-a-long-name")
    ShortUrl.objects.update(owner=owner)
    log_in(owner)
    page.emulate_media(reduced_motion="reduce")
    own = f"/links/{short_url.key}"
    bearer("a-name-of-a-hundred-letters-" + "x" * 72, user=owner)
    look_at(page, ["/links", own, f"{own}/delete", f"/{short_url.key}/stats"])
    look_at(page, ["/account", "/account/password_change/"])
    # The keyboard is enough.
    page.goto("/links")
    page.get_by_label("Part of the key").focus()
    page.keyboard.type("20-letters")
    page.keyboard.press("Enter")
    page.get_by_role("link", name=f"Delete /{short_url.key}").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=f"Delete /{short_url.key}?")).to_be_visible()
    page.get_by_role("button", name="Delete").press("Enter")
    expect(page.get_by_text(f"/{short_url.key} is deleted.")).to_be_visible()


@pytest.fixture
def visited(service: None) -> None:
    demo.make_link("spring", 4, "steady", target_url="https://example.com/")
    recent = RecentVisits.objects.latest("id")
    recent.kinds[0][0] = f"{'long' * 15}.example"
    recent.save()
    roll_up_visits()


@pytest.mark.parametrize("java_script", [True, False])
@pytest.mark.usefixtures("visited")
def test_chooses_a_range_by_keyboard(new_page: NewPage, java_script: bool) -> None:
    page = new_page(java_script_enabled=java_script)
    page.goto("/spring/stats")
    expect(page.get_by_role("img", name="Visits by day")).to_be_visible()
    today = timezone.now().date()
    page.get_by_label("From").fill(str(today - timedelta(days=400)))
    page.get_by_label("By", exact=True).select_option("month")
    page.get_by_role("button", name="Show").press("Enter")
    expect(page.get_by_label("From")).to_have_value(str(today - timedelta(days=400)))
    expect(page.get_by_role("img", name="Visits by month")).to_be_visible()
    bars = page.locator("rect.people")
    assert bars.count() in (12, 13)
    page.get_by_text("The chart as a table").press("Enter")
    expect(page.get_by_role("columnheader", name="Month (UTC)")).to_be_visible()
    page.get_by_role("link", name="2 days").press("Enter")
    expect(page.get_by_role("img", name="Visits by hour")).to_be_visible()
    page.get_by_label("To").fill("2000-01-01")
    page.get_by_role("button", name="Show").press("Enter")
    wrong = re.compile("begin with the earlier day")
    expect(page.get_by_label("From")).to_have_accessible_description(wrong)


@pytest.mark.usefixtures("visited")
def test_the_labels_of_the_chart_do_not_overlap(new_page: NewPage) -> None:
    page = new_page(reduced_motion="reduce")
    look_at(page, ["/spring/stats"])
    today = timezone.now().date()
    for days, by in [(2, "hour"), (12, "hour"), (30, "day"), (90, "day"), (360, "day")]:
        query = f"?from={today - timedelta(days=days - 1)}&by={by}"
        page.goto(f"/spring/stats{query}")
        for width in (360, 1200):
            page.set_viewport_size({"width": width, "height": 640})
            words = page.locator(".chart > svg > text:not(.y)")
            edges: list[list[float]] = words.evaluate_all(
                "words => words.map((word) => word.getBoundingClientRect())"
                ".filter((box) => box.width).map((box) => [box.left, box.right])"
            )
            assert len(edges) > 1
            for (_, right), (left, _) in pairwise(edges):
                assert right < left, (query, width)
