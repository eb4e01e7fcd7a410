"""The lab in a browser: from the matrix to a cell, and through the steps of a schedule."""

import re

from playwright.sync_api import Locator, Page, expect

from lab.conftest import NAIVE_PATH, find_schedule, read_recorded
from lab.recordings.recording import RecordedSchedule
from shorturl.tests.browser.conftest import NewPage


def find_steps(page: Page) -> Locator:
    """Return the visible steps of the visible picture, wide or narrow."""
    return page.locator(".picture:visible text.said:visible")


def find_table_rows(page: Page) -> Locator:
    return page.locator(".lanes tbody tr:visible")


def read_counterexample(strategy: str) -> RecordedSchedule:
    recording = read_recorded(f"lost_update/{strategy}")
    return find_schedule(recording, recording.counterexample)


def expect_steps(page: Page, schedule: RecordedSchedule, number: int) -> None:
    """Check that the picture and the table show the first `number` steps, and no others."""
    picture = page.locator(".picture:visible")
    taken = picture.locator("rect.step:not(.later)").evaluate_all(
        "rects => rects.map((rect) => Number(rect.dataset.step))"
    )
    assert taken == list(range(1, number + 1))
    expect(find_table_rows(page)).to_have_count(number)
    rows = find_table_rows(page).evaluate_all(
        """rows => rows.map((row) => {
            const cells = [...row.querySelectorAll("td")];
            const text = (inside) => row.querySelector(inside)?.textContent ?? "";
            const process = 1 + cells.findIndex((cell) => cell.querySelector("code"));
            const state = row.querySelector(".state").firstChild.textContent;
            return [process, text("code"), text(".returned"), state];
        })"""
    )
    assert rows == [
        [step[name] for name in ("process", "sql", "result", "observed")]
        for step in schedule.steps[:number]
    ]


def open_naive(page: Page) -> RecordedSchedule:
    """Open the page of the strategy `naive` with the table; return the schedule that it shows."""
    page.goto(NAIVE_PATH)
    page.get_by_text("as a table").click()
    return read_counterexample("naive")


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def test_buttons_lead_to_each_step(page: Page) -> None:
    schedule = open_naive(page)
    last = len(schedule.steps)
    verdict = page.locator("#verdict")
    arrows = page.locator(".picture:visible .conflict:visible")
    marks = page.locator(".lanes .mark:visible")
    press(page, "First")
    expect_steps(page, schedule, 1)
    expect(verdict).to_be_hidden()
    expect(arrows).to_have_count(0)
    expect(marks).to_have_count(0)
    for number in range(2, last + 1):
        press(page, "Forward")
        expect_steps(page, schedule, number)
        step = schedule.steps[number - 1]
        expect(page.locator(".line.now")).to_have_id(f"L{step['line']}")
        expect(page.locator("[aria-current=step]")).to_have_id(f"step-{number}")
        expect(page.get_by_role("status")).to_contain_text(f"Step {number} of {last}")
        expect(page.locator(".sent-now")).to_contain_text(step["sql"])
        expect(page.locator(".sent-now .returned")).to_have_text(step["result"])
    expect(verdict).to_be_visible()
    expect(arrows).to_have_count(2)
    expect(marks).not_to_have_count(0)
    press(page, "Forward")  # there is no further step
    expect_steps(page, schedule, last)
    press(page, "Back")
    expect_steps(page, schedule, last - 1)
    expect(verdict).to_be_hidden()
    press(page, "All")
    expect_steps(page, schedule, last)
    expect(verdict).to_be_visible()
    expect(page.locator(".line.now")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"/2/$"))


def test_the_address_keys_and_a_click_lead_to_a_step(page: Page) -> None:
    schedule = open_naive(page)
    last = len(schedule.steps)
    for key, number in [
        ("ArrowRight", 1),  # from the whole schedule
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        ("ArrowLeft", 1),  # there is no step before
        ("End", last),
        ("Home", 1),
        ("Escape", last),
        ("Control+ArrowRight", last),  # is the browser's
        ("ArrowLeft", last - 1),  # from the whole schedule
    ]:
        page.keyboard.press(key)
        expect_steps(page, schedule, number)
    page.locator(".picture:visible rect.step").nth(1).click()
    expect_steps(page, schedule, 2)
    page.reload()
    page.get_by_text("as a table").click()
    expect_steps(page, schedule, 2)


def test_the_picture_is_seen_at_once_and_on_a_phone(page: Page) -> None:
    """A laptop shows all of it, with the verdict and the line of code that loses the hit."""
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(NAIVE_PATH)
    for shown_at_once in (
        page.locator("#verdict"),
        page.locator(".picture.wide"),
        page.get_by_text("short_url.save()"),
    ):
        expect(shown_at_once).to_be_in_viewport(ratio=1)
    expect(page.locator(".picture.wide .conflict")).to_have_count(2)
    page.set_viewport_size({"width": 360, "height": 740})
    expect(page.locator(".picture.wide")).to_be_hidden()
    expect(page.locator(".picture.narrow")).to_be_visible()
    heads = page.locator(".picture.narrow .head").all_text_contents()
    assert heads == ["P1", "P2", "rows"]


def test_the_first_count_of_a_race_is_not_cut_off_on_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto("/lab/races/lost_update/")
    count_end, table_end = page.evaluate(
        """() => [document.querySelector("td .count"), document.querySelector(".scroll")]
            .map((element) => element.getBoundingClientRect().right)"""
    )
    assert count_end <= table_end


def test_stepping_source_and_prediction_work_without_javascript(new_page: NewPage) -> None:
    page = new_page(java_script_enabled=False)
    page.goto("/lab/")
    page.locator(f"a[href='{NAIVE_PATH}']").first.click()
    schedule = read_counterexample("naive")
    expect(find_steps(page)).to_have_count(len(schedule.steps))
    expect(page.locator(".picture:visible .conflict")).to_have_count(2)
    expect(page.locator("#verdict")).to_be_visible()
    expect(page.locator(".stepping")).to_be_hidden()
    page.get_by_text("as a table").click()
    page.locator("#step-3").get_by_role("link", name="line").click()
    line = schedule.steps[2]["line"]
    expect(page.locator(".line:target")).to_have_id(f"L{line}")
    page.get_by_role("link", name="next violation").click()
    page.get_by_role("link", name="predict").click()
    expect(page.get_by_text("takes its next step: ?")).not_to_have_count(0)


def test_the_visitor_is_the_scheduler(new_page: NewPage) -> None:
    """By keys, and without JavaScript by links; a waiting process cannot be chosen."""
    page = new_page()
    page.goto(NAIVE_PATH)
    page.get_by_role("link", name="you are the scheduler").click()
    expect(page.locator(".keys")).to_be_visible()
    page.keyboard.press("Control+2")  # the browser's own
    taken = ""
    for key in ("1", "ArrowLeft", *"121122"):
        expect(page.locator(".keys")).to_be_visible()  # the page's script listens to keys now
        page.keyboard.press(key)
        taken = taken[:-1] if key == "ArrowLeft" else taken + key
        expect(page).to_have_url(re.compile(f"taken={taken}$"))
    expect(page.get_by_text("orders violate the invariant")).to_be_visible()
    expect(page.locator(".picture:visible .conflict")).to_have_count(2)
    with page.expect_download():
        page.get_by_role("link", name="the same step by step").click()
        page.get_by_role("link", name="save the picture").click()

    plain = new_page(java_script_enabled=False)
    plain.goto("/lab/races/lost_update/select_for_update/2/scheduler/")
    choices = plain.get_by_role("navigation", name="Next process")
    for name in ("process 2", "process 1"):
        choices.get_by_role("link", name=name).click()
    expect(choices.get_by_text("process 1 waits for process 2")).to_be_visible()
    expect(choices.get_by_role("link", name="process 1")).to_have_count(0)


def test_tab_and_enter_keep_their_place_in_the_scheduler(new_page: NewPage) -> None:
    """Without JavaScript, too. A process that cannot go on gives its place to another one."""
    page = new_page(java_script_enabled=False)
    page.goto(f"{NAIVE_PATH}scheduler/")
    page.get_by_role("link", name="process 2").focus()
    for taken, name in [
        ("2", "process 2"),
        ("22", "process 2"),
        ("222", "process 1"),  # process 2 has ended
        ("2221", "process 1"),
    ]:
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(f"taken={taken}$"))
        expect(page.get_by_role("link", name=name)).to_be_focused()
    page.keyboard.press("Tab")
    for taken in ("222", "22"):
        expect(page.get_by_role("link", name="one step back")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(f"taken={taken}$"))
    page.get_by_role("link", name="start again").press("Enter")
    expect(page.get_by_role("link", name="process 1")).to_be_focused()
    page.goto(f"{NAIVE_PATH}scheduler/?taken=211212")
    expect(page.get_by_role("link", name="the same steps with select_for_update")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("select_for_update/2/scheduler/"))


# Scrolling is smooth and takes a moment. Waiting for it with wait_for_function() would evaluate a
# string in the page, which its policy forbids.
def tab_to(stop: Locator) -> None:
    """Press the tab key until an element has the focus; it must be visible with its outline."""
    for _ in range(120):
        stop.page.keyboard.press("Tab")
        if stop.evaluate("it => it === document.activeElement"):
            break
    expect(stop).to_be_focused()
    expect(stop).to_be_in_viewport()
    assert stop.evaluate("it => getComputedStyle(it).outlineStyle") == "solid"


def test_the_keyboard_alone_reaches_a_cell_and_all_its_parts(page: Page) -> None:
    page.goto("/lab/")
    tab_to(page.locator(f"a[href='{NAIVE_PATH}']").first)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(NAIVE_PATH))
    tab_to(page.get_by_role("group", name="Schedules").get_by_role("link").first)
    tab_to(page.get_by_role("button", name="Forward"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Step 1 of")
    page.keyboard.press("Space")
    expect(page.get_by_role("status")).to_contain_text("Step 2 of")
    tab_to(page.get_by_role("region", name="Source of naive"))
    tab_to(page.locator(".as-table summary"))
    page.keyboard.press("Enter")
    tab_to(page.get_by_role("region", name="Steps"))


def test_the_keyboard_alone_predicts_and_reveals(page: Page) -> None:
    schedule = read_counterexample("naive")
    page.goto(NAIVE_PATH)
    tab_to(page.get_by_role("link", name="predict"))
    page.keyboard.press("Enter")
    hidden = len(schedule.steps) - len(schedule.steps) // 2
    expect(page.get_by_text("takes its next step: ?")).to_have_count(hidden)
    expect(page.get_by_role("button", name="Forward")).to_be_hidden()
    tab_to(page.get_by_label("Your prediction"))
    page.keyboard.type("hits = 1")
    page.keyboard.press("ArrowLeft")  # moves in the text, and not to another step
    page.keyboard.press("Enter")
    expect(page.get_by_text("You predicted: hits = 1.")).to_be_visible()
    page.set_viewport_size({"width": 320, "height": 640})
    source = page.get_by_role("region", name="Source of naive")
    assert source.evaluate("frame => frame.scrollWidth <= frame.clientWidth")  # its lines wrap
    expect(find_steps(page)).to_have_count(len(schedule.steps))
