"""A page of HTML with what tests have found: one file, which needs no network."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from pginterleave import formatting
from pginterleave.picture.cells import REFUSED, Sheet, verdict
from pginterleave.picture.conflicts import marks
from pginterleave.picture.layout import drawings, svg
from pginterleave.picture.recorded import recorded_steps
from pginterleave.steps import RanSchedule

STATIC = Path(__file__).parent / "static" / "pginterleave"
VIOLATED, SAFE, NOT_PROVEN = "violated", "safe", "not proven"
SIGNS = {VIOLATED: "✗", REFUSED: "⊘", SAFE: "✓", NOT_PROVEN: "?"}
BUTTONS = ("first", "back", "forward", "all")
Result = dict[str, Any]  # of a call in a test: `test`, `verdict`, `summary`, `pictures` as HTML


def page(results: Sequence[Result]) -> str:
    """Return the page, with the violated races first."""
    order = [VIOLATED, REFUSED, NOT_PROVEN, SAFE]
    listed = sorted(results, key=lambda entry: order.index(entry["verdict"]))
    counts = ", ".join(
        f"{sum(e['verdict'] == verdict for e in results)} {verdict}" for verdict in order
    )
    styles = "".join((STATIC / name).read_text("utf-8") for name in ("report.css", "picture.css"))
    script = (STATIC / "steps.js").read_text("utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
        f"<title>Races: {counts}</title>\n<style>\n{styles}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>Every schedule of each race</h1>\n<p>{counts}</p>\n"
        f"{''.join(map(_entry, listed))}</main>\n"
        f"<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _entry(result: Result) -> str:
    verdict, pictures = result["verdict"], result["pictures"]
    return (
        f'<details class="test {verdict.replace(" ", "-")}"{" open" * bool(pictures)}>\n'
        f"<summary><b>{SIGNS[verdict]} {verdict}</b> "
        f"<code>{escape(result['test'])}</code></summary>\n"
        f"<p>{escape(result['summary'])}</p>\n{''.join(pictures)}</details>\n"
    )


def picture(schedule: RanSchedule, *, name: str, snapshots: bool, replay: str = "") -> str:
    """Return a counterexample as HTML: its picture, and a table of its steps.

    Args:
        schedule: the counterexample.
        name: a name that is unique on the page.
        snapshots: whether a transaction reads as of its first query, as at the stricter levels.
        replay: the command that runs the schedule again, or "".
    """
    steps = recorded_steps(schedule)
    errors = [outcome.raised for outcome in schedule.outcomes]
    raised = [formatting.format_exception(error) if error else "" for error in errors]
    ends = verdict(schedule.violation, raises=schedule.raises)
    sheet = Sheet(steps, steps, len(errors), "", ends, raised, snapshots=snapshots)
    described = f"Schedule {schedule.order}, step by step; the table below tells the same"
    buttons = "".join(
        f'<button type="button" data-go="{name}">{name.title()}</button>' for name in BUTTONS
    )
    tracebacks = "".join(
        f"<pre>{escape(formatting.format_traceback(error))}</pre>\n"
        for error in errors
        if error and schedule.raises
    )
    command = f"<pre>{escape(replay)}</pre>\n" if replay else ""
    return (
        f'<section data-schedule>\n<p class="verdict-box {ends.kind}"><b>{ends.sign} '
        f"{escape(schedule.violation)}</b></p>\n"
        f'<nav class="around" aria-label="Schedule"><span>Schedule <b>{schedule.order}</b></span> '
        f'<div class="stepping" hidden>{buttons}<span class="help">or ← → Home End</span>'
        '<p class="unseen" role="status"></p></div></nav>\n'
        f"{''.join(svg(drawing, described, name=name) for drawing in drawings(sheet))}\n"
        '<div class="sent-now" hidden><p class="told"></p><code></code> '
        '<span class="returned"></span></div>\n'
        f"{tracebacks}{command}"
        f'<details class="as-table {ends.kind}">'
        "<summary>Every step with its SQL and result, as a table</summary>\n"
        f"{_table(sheet)}</details>\n</section>\n"
    )


def _table(sheet: Sheet) -> str:
    numbers, marked = range(1, sheet.processes + 1), marks(sheet.conflicts)
    heads = "".join(f'<th scope="col">process {number}</th>' for number in numbers)
    rows = [_row(number, sheet, marked) for number in range(1, len(sheet.steps) + 1)]
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Steps"><table class="lanes">\n'
        f'<thead><tr><th scope="col">step</th>{heads}</tr></thead>\n'
        f"<tbody>\n{''.join(rows)}</tbody></table></div>\n"
    )


def _row(number: int, sheet: Sheet, marked: dict[int, list[str]]) -> str:
    cells = [""] * sheet.processes
    steps = sheet.steps
    for earlier, other in enumerate(steps[: number - 1], start=1):
        if other["until"] == number:
            cells[other["process"] - 1] += _p("wait", f"resumes step {earlier}") + _result(other)
    step = steps[number - 1]
    cell = f"<code>{escape(step['sql'])}</code>"
    if step["waited_for"]:
        cell += _p("wait", f"waits for process {' and '.join(map(str, step['waited_for']))}")
    if step["until"] == number:
        cell += _result(step)
    cell += "".join(_p("mark", text) for text in marked.get(number, []))
    cell += _p("told", sheet.sentences[number - 1]) + _p("sent", step["where"])
    cells[step["process"] - 1] += cell
    shown = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><th scope="row">{number}</th>{shown}</tr>\n'


def _result(step: dict[str, Any]) -> str:
    return _p("returned error" if step["error"] else "returned", step["result"])


def _p(style: str, text: str) -> str:
    return f'<p class="{style}">{escape(text)}</p>' if text else ""
