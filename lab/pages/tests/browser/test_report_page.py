"""The explorer's report of all tests: the arrow keys step through the touched counterexample."""

from pathlib import Path

from playwright.sync_api import Browser, expect

from pginterleave import Outcome, Schedule, Step
from pginterleave.picture import html_report as report


def schedule(violation: str) -> Schedule:
    kinds = [(1, "SELECT hits FROM t"), (2, "SELECT hits FROM t"), (2, "UPDATE t SET hits = 1")]
    steps = tuple(
        Step(number, process, sql.split()[0], sql, None, "views.py", number, "f", number)
        for number, (process, sql) in enumerate([*kinds, (1, "UPDATE t SET hits = 1")], start=1)
    )
    return Schedule("1221", steps, (Outcome(), Outcome()), violation)


def test_the_keys_step_through_the_counterexample_that_was_touched(
    browser: Browser, tmp_path: Path
) -> None:
    entries = [
        {
            "test": f"test_{name}",
            "verdict": report.VIOLATED,
            "summary": "1 of the first 3 schedules violates the invariant.",
            "pictures": [report.picture(schedule(name), name=f"-{name}", snapshots=False)],
        }
        for name in ("one", "two")
    ]
    file = tmp_path / "report.html"
    file.write_text(report.page(entries), encoding="utf-8")
    page = browser.new_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(file.as_uri())
    one, two = page.locator("[data-schedule]").all()
    page.keyboard.press("ArrowRight")
    told = "Step 1 of 4: Process 1 finds no row of t. SELECT hits FROM t "
    expect(one.locator("[role=status]")).to_have_text(told)
    expect(one.locator(".verdict-box")).to_be_hidden()
    two.get_by_role("button", name="Forward").click()
    page.keyboard.press("ArrowRight")
    expect(two.locator("[role=status]")).to_contain_text("Step 2 of 4")
    expect(one.locator("[role=status]")).to_contain_text("Step 1 of 4")
    page.keyboard.press("End")
    expect(two.locator(".verdict-box")).to_be_visible()
    assert messages == []
    page.close()
