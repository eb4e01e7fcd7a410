"""The appearance of the lab's pages, and their accessibility by axe-core."""

import pytest
from playwright.sync_api import Page, expect

from shorturl.tests.browser.conftest import check_width, find_barriers

EXPLORATION = "/lab/races/lost_update/{}/2/"
PATHS = [
    "/lab/",
    "/lab/races/lost_update/",
    EXPLORATION.format("naive") + "?predict=2",
    EXPLORATION.format("naive") + "?guess=" + "hits" * 25,
    EXPLORATION.format("select_for_update"),
    EXPLORATION.format("atomic_only"),
    "/lab/races/lost_update/compare_and_swap/3/",  # not all schedules are recorded
    "/lab/races/toctou/check_first/2/",  # with an error
    EXPLORATION.format("atomic_only") + "scheduler/?taken=12",
    EXPLORATION.format("select_for_update") + "scheduler/?taken=121122",
    "/lab/queue/",
    "/lab/isolation/",
    "/lab/museum/",
    "/lab/load-runs/",
]


def check_readable(page: Page) -> None:
    """Check a page in light and dark mode, with its content security policy."""
    page.emulate_media(color_scheme="light", reduced_motion="reduce")  # no colour in transition
    assert find_barriers(page) == []
    page.emulate_media(color_scheme="dark")
    assert find_barriers(page, runOnly=["color-contrast"]) == []


@pytest.mark.exhaustive
def test_axe_finds_nothing_serious(page: Page) -> None:
    for path in PATHS:
        response = page.goto(path)
        assert response
        assert response.status == 200
        check_readable(page)


@pytest.mark.exhaustive
def test_stepping_is_readable_and_nothing_is_wider_than_the_window(page: Page) -> None:
    page.goto(EXPLORATION.format("naive") + "#step-3")
    expect(page.locator("[aria-current=step]")).to_have_id("step-3")
    page.get_by_text("as a table").click()
    check_readable(page)
    page.evaluate("document.querySelector('h1').style.color = '#222'")
    assert find_barriers(page, runOnly=["color-contrast"])  # dark on dark is found
    for path in PATHS:
        page.goto(path)
        check_width(page, 1200)
        check_width(page, 320)


def test_nothing_of_the_source_is_cut_off_on_paper(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 400})
    page.emulate_media(media="print")
    page.goto(EXPLORATION.format("select_for_update"))
    page.get_by_text("docstring").click()
    hidden = page.locator(".source .scroll").evaluate(
        "e => [e.scrollWidth - e.clientWidth, e.scrollHeight - e.clientHeight]"
    )
    assert hidden == [0, 0]


def test_a_prediction_on_paper_has_room_to_write_and_nothing_to_press(page: Page) -> None:
    page.emulate_media(media="print")
    page.goto(EXPLORATION.format("naive") + "?schedule=121122&predict=2")
    for text in ("Schedule 121122, 4 of 14", "Your prediction"):
        expect(page.get_by_text(text)).to_be_visible()
    expect(page.locator(".picture.wide")).to_be_visible()
    for hidden in (page.get_by_role("button"), page.locator("input"), page.locator("main a")):
        expect(hidden.first).to_be_hidden()
    expect(page.get_by_text("hits = 1")).to_have_count(0)


@pytest.mark.parametrize(("width", "height", "min_size"), [(390, 844, 12), (1920, 1080, 18)])
def test_type_is_large_enough_on_a_phone_and_on_a_projector(
    page: Page, width: int, height: int, min_size: int
) -> None:
    """Sizes are in pixels; the text of a picture is scaled with it."""
    page.set_viewport_size({"width": width, "height": height})
    for path in ("/lab/", EXPLORATION.format("naive"), "/lab/races/toctou/check_first/2/"):
        page.goto(path)
        sizes = page.evaluate(
            """() => [...document.querySelectorAll("main *")]
                .filter((element) => element.checkVisibility() && [...element.childNodes].some(
                    (node) => node.nodeType === Node.TEXT_NODE && node.data.trim()))
                .map((element) => [parseFloat(getComputedStyle(element).fontSize)
                    * (element.ownerSVGElement?.getScreenCTM().a ?? 1), element.outerHTML])"""
        )
        assert [html for size, html in sizes if size < min_size] == [], path
