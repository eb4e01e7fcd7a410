"""The page of `pytest --interleave-html` in a browser; its pictures are those of the lab."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from lab.conftest import find_schedule, read_recorded
from lab.pages.tests.browser.test_lab_appearance import check_readable
from pginterleave.discovery.findings import Discovery, Explored, Race
from pginterleave.discovery.page import make_page
from shorturl.tests.browser.conftest import NewPage, check_width

MARKUP = "<img src=x onerror=alert(1)>"
KINDS = {"lost_update/naive": "rows", "toctou/check_first": "errors"}


def make_race(cell: str) -> Race:
    recording = read_recorded(cell)
    schedule = find_schedule(recording, recording.counterexample)
    test = f"shop/tests.py::test_redeem[{MARKUP}]"
    return Race(
        names=["POST shop:redeem", "POST shop:redeem"],
        tests=[test],
        kind=KINDS[cell],
        sentence=f"{schedule.violation}, {MARKUP}\n\n{'':20}here\nshop_redemption {'x' * 80}\n2",
        order=schedule.order,
        command=f"pytest '{test}' --interleave-requests --interleave-replay {schedule.order}",
        statements=[{"process": 1, "where": "shop/views.py:33"}],
        steps=[step | {"sql": f"{step['sql']} {MARKUP}"} for step in schedule.steps],
    )


def make_discovery() -> Discovery:
    long = Explored(names=["POST " + "long_name_" * 12] * 2, tests=["t" * 90], preemptions=2)
    left = Explored(names=["POST shop:fail"], tests=["t" * 90], reason="alone it answers 500")
    races = [make_race(cell) for cell in KINDS]
    return Discovery(requests=9, writing=4, races=races, explored=[long], left=[left])


@pytest.fixture
def open_page(new_page: NewPage) -> Callable[..., Page]:
    def open_page(results: Discovery, **options: object) -> Page:
        page = new_page(**options)
        html = make_page(results, "shop")
        page.route(
            "**/races.html", lambda route: route.fulfill(body=html, content_type="text/html")
        )
        page.goto("/races.html")
        return page

    return open_page


def test_keys_step_through_the_race_that_is_looked_at(open_page: Callable[..., Page]) -> None:
    page = open_page(make_discovery())
    first, second = (page.locator(f"#race-{number}-") for number in (1, 2))
    steps = "rect.step:not(.later):visible"
    everything = [race.locator(steps).count() for race in (first, second)]
    page.get_by_role("link", name="errors POST shop:redeem").click()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(second.locator(steps)).to_have_count(2)
    expect(second.get_by_role("status")).to_contain_text("Step 2 of ")
    expect(second.locator(".verdict-box")).to_be_hidden()
    expect(first.locator(steps)).to_have_count(everything[0])
    page.reload()
    expect(second.locator(steps)).to_have_count(2)
    page.keyboard.press("Escape")
    expect(second.locator(steps)).to_have_count(everything[1])
    first.get_by_role("button", name="First").click()
    expect(first.locator(steps)).to_have_count(1)


def test_everything_is_there_without_javascript(open_page: Callable[..., Page]) -> None:
    results = make_discovery()
    order = results.races[0].order
    page = open_page(results, java_script_enabled=False)
    race = page.locator("#race-1-")
    for text in ("hits = 1, not 2", "shop/views.py:33", f"--interleave-replay {order}", MARKUP):
        expect(race.get_by_text(text).first).to_be_visible()
    expect(race.locator("text.said:visible")).to_have_count(6)
    expect(race.locator(".stepping")).to_be_hidden()
    race.get_by_text("as a table").click()
    expect(race.locator(".lanes tbody tr:visible")).to_have_count(6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("results", [make_discovery(), Discovery()], ids=["races", "nothing"])
def test_it_is_readable_in_light_and_dark_and_at_every_width(
    open_page: Callable[..., Page], results: Discovery
) -> None:
    page = open_page(results)
    for summary in page.get_by_text("as a table").all():
        summary.click()
    check_readable(page)
    for width in (320, 390, 1280, 1920):
        check_width(page, width)
