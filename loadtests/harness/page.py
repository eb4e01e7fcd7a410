"""What `make races` found, as a page: tables, charts, and the requests that prove the losses."""

from html import escape
from pathlib import Path
from string import Template
from typing import Any

from loadtests.harness import report, result
from loadtests.harness.charts import Bar, Point, bars, scatter
from loadtests.harness.report import Row
from loadtests.harness.verdict import Verdict

TEMPLATE = Template((Path(__file__).parent / "page.html").read_text())
NEXT = "\n\n"
LOST = {"resolving": "Hits lost", "creating": "Creates lost"}


def page(verdicts: list[Verdict], about: dict[str, Any]) -> str:
    """Return the whole page, which needs no network."""
    sections = [
        section(operation, rows, [v for v in verdicts if v.operation == operation])
        for operation, rows in report.rows(verdicts).items()
    ]
    notes = [f"<p>{escape(note)}</p>" for note in about["notes"]]
    return TEMPLATE.substitute(
        about=f"<code>{escape(about['command'])}</code>, {escape(report.summary(about))}.",
        notes="\n".join(notes),
        sections="\n".join(sections),
    )


def section(operation: str, rows: list[Row], verdicts: list[Verdict]) -> str:
    """Return the part about one operation."""
    parts = [f"<h2>{report.TITLES[operation]}</h2>", table(operation, rows)]
    parts += [f"<h3>{LOST[operation]}</h3>", bars(LOST[operation], [lost(row) for row in rows])]
    if any(row.edits for row in rows):
        parts += ["<h3>Edits undone</h3>", bars("Edits undone", [undone(row) for row in rows])]
    if any(row.errors for row in rows):
        parts += ["<h3>Errors</h3>", bars("Errors", [errors(row) for row in rows])]
    title = "Throughput against the slowest hundredth"
    points = [Point(row.strategy, row.per_second, row.p99, row.table == "wrong") for row in rows]
    parts += [f"<h3>{title}</h3>", scatter(title, "per second", "p99 in ms", points)]
    return "\n".join([*parts, proofs(verdicts)])


def table(operation: str, rows: list[Row]) -> str:
    """Return the table of the strategies."""
    headings = ["strategy", *report.headings(operation)[1:]]  # the title is above
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in report.cells(row)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><tr>{head}</tr>\n{body}</table></div>'


def lost(row: Row) -> Bar:
    """Return the bar of what a strategy lost."""
    value = f"{result.percent(row.share)} ({row.lost:,})" if row.lost else "0"
    return Bar(row.strategy, row.share, value, row.table == "wrong")


def undone(row: Row) -> Bar:
    """Return the bar of the edits that a strategy undid."""
    share = min(1.0, row.undone / row.edits) if row.edits else 0.0
    value = f"{result.percent(share)} ({row.undone:,})" if row.undone else "0"
    return Bar(row.strategy, share, value, row.table == "wrong")


def errors(row: Row) -> Bar:
    """Return the bar of the requests that ended in an error."""
    share = min(1.0, row.errors / row.of) if row.of else 0.0
    value = f"{result.percent(share)} ({row.errors:,})" if row.errors else "0"
    return Bar(row.strategy, share, value, row.table == "wrong")


def proofs(verdicts: list[Verdict]) -> str:
    """Return the requests that prove what was lost, one case of each strategy."""
    cases = [(verdict.strategy, *verdict.proofs[0]) for verdict in verdicts if verdict.proofs]
    if not cases:
        return ""
    blocks = [
        "\n".join([f"{strategy}: {case}", *(f"    {request}" for request in requests)])
        for strategy, case, *requests in cases
    ]
    return f"<h3>Requests that prove it</h3><pre>{escape(NEXT.join(blocks))}</pre>"
