"""A visitor with a browser: from the matrix to an exploration, and through its steps."""

import re
from collections.abc import Iterator

import pytest
from django.db import connection
from django.utils import timezone
from playwright.sync_api import Locator, Page, expect

from lab.conftest import NAIVE, RIGHT, Kept
from lab.models import Batch, RecordedSchedule, Recording
from lab.recording import batches
from lab.scratch_database import scratch_databases
from shorturl.tests.browser.conftest import NewPage


def shown(page: Page) -> Locator:
    """Return the steps that can be seen."""
    return page.locator(".lanes tbody tr:visible")


def recorded_schedule(strategy: str, order: str) -> RecordedSchedule:
    return RecordedSchedule.objects.get(
        recording__race="lost_update",
        recording__strategy=strategy,
        recording__isolation="read committed",
        order=order,
    )


def shows_steps(page: Page, schedule: RecordedSchedule, number: int) -> None:
    """Check that the first `number` steps are shown as they were recorded, and no other."""
    expect(shown(page)).to_have_count(number)
    rows = shown(page).evaluate_all(
        """rows => rows.map((row) => {
            const cells = [...row.querySelectorAll("td")];
            const text = (inside) => row.querySelector(inside).textContent;
            const process = 1 + cells.findIndex((cell) => cell.querySelector("code"));
            return [process, text("code"), text(".returned"), text(".state")];
        })"""
    )
    assert rows == [
        [step[name] for name in ("process", "sql", "result", "observed")]
        for step in schedule.steps[:number]
    ]


def test_through_the_steps_of_an_exploration(page: Page, recorded: dict[str, Kept]) -> None:
    schedule = recorded_schedule("naive", "1212")
    page.goto(f"{NAIVE}?schedule=1212")
    verdict = page.locator("#verdict")
    press = {
        name: page.get_by_role("button", name=name, exact=True)
        for name in ("First", "Back", "Forward", "All")
    }
    press["First"].click()
    shows_steps(page, schedule, 1)
    expect(verdict).to_be_hidden()
    for number in (2, 3, 4):
        press["Forward"].click()
        shows_steps(page, schedule, number)
        line = schedule.steps[number - 1]["line"]
        expect(page.locator(".line.now")).to_have_id(f"L{line}")
        expect(page.locator("[aria-current=step]")).to_have_id(f"step-{number}")
        expect(page.get_by_role("status")).to_have_text(f"Step {number} of 4")
    expect(verdict).to_be_visible()
    press["Forward"].click()  # there is no further
    shows_steps(page, schedule, 4)
    press["Back"].click()
    shows_steps(page, schedule, 3)
    expect(verdict).to_be_hidden()

    page.reload()  # the address names the step, too
    shows_steps(page, schedule, 3)
    press["All"].click()
    shows_steps(page, schedule, 4)
    expect(verdict).to_be_visible()
    expect(page.locator(".line.now")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"\?schedule=1212$"))

    arrows = ["ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft"]
    for key, number in zip([*arrows, "End", "Home", "Escape"], (1, 2, 1, 1, 4, 1, 4), strict=True):
        page.keyboard.press(key)
        shows_steps(page, schedule, number)


@pytest.fixture
def nothing_goes_on(transactional_db: None) -> Iterator[None]:
    """Let what was started end before its tables are emptied, even when the test fails."""
    yield
    with connection.cursor() as cursor:  # whoever explores holds this lock until it is done
        cursor.execute("SELECT pg_advisory_lock(%s), pg_advisory_unlock(%s)", [batches.LOCK] * 2)


def test_an_exploration_is_started_and_shown(page: Page, nothing_goes_on: None) -> None:
    """It is run by another process, and recorded in the database of this test."""
    page.goto(RIGHT)
    page.get_by_role("button", name="Explore it").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Explored")
    page.get_by_role("link", name="Show it").click()
    expect(page.get_by_text("0 of 2 schedules violate the invariant")).to_be_visible()
    shows_steps(page, recorded_schedule("update_returning", "12"), 2)
    assert Recording.objects.count() == 1
    assert Batch.objects.get().done == 1
    assert scratch_databases(connection) == []


def test_a_run_is_followed(new_page: NewPage, page: Page, somebody_explores: None) -> None:
    """With JavaScript the page keeps itself up to date; without, there is a link."""
    Batch.objects.create(what="matrix", total=70)
    plain = new_page(java_script_enabled=False)
    plain.goto(RIGHT)
    plain.get_by_role("button", name="Explore it").click()
    page.goto(plain.url)
    for each in (page, plain):
        expect(each.get_by_text("Starting.")).to_be_visible()
    Batch.objects.update(done=3, current="toctou/naive: 5 schedules")
    expect(page.get_by_text("matrix: 3 of 70.")).to_be_visible()
    expect(page.get_by_text("toctou/naive: 5 schedules")).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_attribute("value", "3")
    Batch.objects.update(done=70, ended_at=timezone.now())
    plain.get_by_role("link", name="Refresh").click()
    for each in (page, plain):
        expect(each.get_by_role("heading", level=1)).to_have_text("Explored")


def test_without_javascript(new_page: NewPage, recorded: dict[str, Kept]) -> None:
    """Everything but stepping."""
    page = new_page(java_script_enabled=False)
    page.goto("/lab/")
    table = page.get_by_role("region", name="resolving")
    table.get_by_role("row", name="naive wrong").get_by_role("link", name="4 / 6").click()
    shows_steps(page, recorded_schedule("naive", "1212"), 4)
    expect(page.locator("#verdict")).to_be_visible()
    expect(page.locator(".stepping")).to_be_hidden()
    page.locator("#step-3").get_by_role("link", name="line").click()
    line = recorded_schedule("naive", "1212").steps[2]["line"]
    expect(page.locator(".line:target")).to_have_id(f"L{line}")
    page.get_by_role("link", name="next violation").click()
    page.get_by_role("link", name="predict").click()
    page.get_by_label("Your prediction").fill("2")
    page.get_by_role("button", name="Reveal").click()
    expect(page.get_by_text("You predicted: 2.")).to_be_visible()
    page.get_by_role("link", name="lost_update").click()
    page.get_by_label("from").select_option("f_expression")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("shorturl/resolving/f_expression.py")).to_be_visible()
    for name in ("Isolation", "Museum", "Races"):
        page.get_by_role("navigation", name="Lab").get_by_role("link", name=name).click()
        expect(page.get_by_role("table")).not_to_have_count(0)


# Scrolling is smooth and takes a moment. Waiting for it with wait_for_function() would evaluate a
# string in the page, which its policy forbids.
SCROLLS = """frame => new Promise((done, failed) => {
    const look = () => frame.scrollLeft > 0 ? done(frame.scrollLeft) : requestAnimationFrame(look);
    look();
    setTimeout(() => failed(new Error("it does not scroll")), 20_000);
})"""


def test_keyboard_only(page: Page, recorded: dict[str, Kept]) -> None:
    """Reach a cell of the matrix, step, predict and reveal; every stop is seen."""

    def tab_to(stop: Locator) -> None:
        for _ in range(80):
            page.keyboard.press("Tab")
            if stop.evaluate("it => it === document.activeElement"):
                break
        expect(stop).to_be_focused()
        expect(stop).to_be_in_viewport()
        assert stop.evaluate("it => getComputedStyle(it).outlineStyle") == "solid"

    page.goto("/lab/")
    tab_to(page.locator(f"a[href='{NAIVE}']").first)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(NAIVE))
    forward = page.get_by_role("button", name="Forward")
    tab_to(forward)
    page.keyboard.press("Enter")
    expect(shown(page)).to_have_count(1)
    page.keyboard.press("Space")
    expect(shown(page)).to_have_count(2)
    tab_to(page.get_by_role("region", name="Steps"))
    tab_to(page.get_by_role("region", name="Source of naive"))
    page.reload()
    tab_to(page.get_by_role("link", name="predict"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("takes its next step: ?")).to_have_count(2)
    expect(forward).to_be_hidden()
    tab_to(page.get_by_label("Your prediction"))
    page.keyboard.type("hits = 1")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(page.get_by_text("You predicted: hits = 1.")).to_be_visible()
    page.set_viewport_size({"width": 320, "height": 640})
    source = page.get_by_role("region", name="Source of naive")
    source.focus()
    page.keyboard.press("ArrowRight")  # scrolls what is wider than its frame
    assert source.evaluate(SCROLLS) > 0
    shows_steps(page, recorded_schedule("naive", "1212"), 4)
