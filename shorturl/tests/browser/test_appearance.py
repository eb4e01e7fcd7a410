"""The pages narrow and wide, in light and dark; and the chart of visits."""

import re
from itertools import pairwise

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from lab.management.commands import demo
from shorturl.models import RecentVisits, ShortUrl
from shorturl.tests.browser.conftest import LogIn, NewPage, check_width, find_barriers
from shorturl.tests.callers import TARGET, create_link, make_token
from shorturl.visits.roll_up import roll_up_visits

PATHS = ["/", "/account/login/", "/account/password_reset/", "/no/such/page"]


@pytest.fixture(autouse=True)
def short_url(service: None) -> ShortUrl:
    return create_link("a-key-of-20-letters-", target_url="https://example.com/" + "long" * 400)


def sum_background_colours(page: Page) -> int:
    """Return red, green and blue of the background, 0 to 255 each, added."""
    colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))


def check_appearance(page: Page, paths: list[str]) -> None:
    for path in paths:
        page.goto(path)
        check_width(page, 1200)
        page.emulate_media(color_scheme="light")
        assert sum_background_colours(page) > 3 * 200  # of 255
        assert find_barriers(page) == []
        page.emulate_media(color_scheme="dark")
        assert sum_background_colours(page) < 3 * 55
        assert find_barriers(page, runOnly=["color-contrast"]) == []
        check_width(page, 320)


def test_public_pages_fit_and_have_contrast_wide_and_narrow_light_and_dark(
    new_page: NewPage,
) -> None:
    page = new_page(reduced_motion="reduce")
    check_appearance(page, PATHS)
    page.goto("/")
    page.get_by_label("Target URL").fill("x" * 300)
    page.get_by_label("Custom key").fill("?" * 300)
    page.get_by_role("button", name="Shorten").click()
    expect(page.locator(".errorlist")).to_have_count(2)
    check_width(page, 320)


def test_the_pages_of_a_user_fit_with_long_names_and_have_contrast(
    page: Page, log_in: LogIn, short_url: ShortUrl
) -> None:
    owner = User.objects.create_user("somebody-with-quite-a-long-name")
    ShortUrl.objects.update(owner=owner)
    log_in(owner)
    page.emulate_media(reduced_motion="reduce")
    own = f"/links/{short_url.key}"
    make_token(name="a-name-of-a-hundred-letters-" + "x" * 72, user=owner)
    check_appearance(page, ["/links", own, f"{own}/delete", f"/{short_url.key}/stats"])
    check_appearance(page, [f"/links/found/stats?tags={'long' * 12}&q={'long' * 100}"])
    check_appearance(page, ["/account", "/account/password_change/"])


@pytest.fixture
def visited(service: None) -> None:
    demo.make_link("spring", busiest_day=4, course="steady", target_url=TARGET)
    recent = RecentVisits.objects.latest("id")
    recent.kinds[0][0] = f"{'long' * 15}.example"  # the referrer, which must not widen the page
    recent.save()
    roll_up_visits()


@pytest.mark.usefixtures("visited")
def test_the_page_of_visits_fits_and_the_labels_of_its_chart_do_not_overlap(
    page: Page, log_in: LogIn
) -> None:
    owner = User.objects.create_user("owner")
    ShortUrl.objects.update(owner=owner, tags=["t"])
    log_in(owner)
    page.emulate_media(reduced_motion="reduce")
    check_appearance(page, ["/spring/stats", "/links?tags=t", "/links/found/stats?tags=t"])
    for preset in ("2 days", "30 days", "90 days"):
        page.get_by_role("link", name=preset).click()
        shown = page.get_by_role("link", name=preset)
        expect(shown).to_have_attribute("aria-current", "true")
        for width in (360, 1200):
            page.set_viewport_size({"width": width, "height": 640})
            words = page.locator(".chart > svg > text:not(.y)")
            edges: list[list[float]] = words.evaluate_all(
                "words => words.map((word) => word.getBoundingClientRect())"
                ".filter((box) => box.width).map((box) => [box.left, box.right])"
            )
            assert len(edges) > 1
            for (_, right), (left, _) in pairwise(edges):
                assert right < left, (preset, width)
    expect(page.locator("[data-country]").first).to_have_text(re.compile("^[A-Z]{2} [A-Z]"))
    page.emulate_media(media="print")
    for role in ("banner", "contentinfo", "navigation"):  # of use on a screen alone
        expect(page.get_by_role(role)).to_have_count(0)
