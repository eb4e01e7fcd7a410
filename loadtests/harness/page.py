"""The page of `make races`: tables, charts, and the requests that prove the losses."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from loadtests.harness import comparison, formats
from loadtests.harness.charts import Bar, bars
from loadtests.harness.comparison import StrategySummary
from loadtests.harness.measured_operations import OPERATIONS
from loadtests.harness.reconciliation import LoadResult

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
)


def page(results: list[LoadResult], about: dict[str, Any]) -> str:
    """Return the whole page, which needs no network."""
    return TEMPLATES.get_template("page.html").render(
        about=about,
        conditions=comparison.conditions(about),
        sections=[
            {
                "title": OPERATIONS[operation].title,
                "headings": ["strategy", *comparison.headings(operation)[1:]],
                "summaries": summaries,
                "charts": charts(operation, summaries),
                "proofs": [
                    (result.strategy, result.proofs[0])
                    for result in results
                    if result.operation == operation and result.proofs
                ],
            }
            for operation, summaries in comparison.compare(results).items()
        ],
    )


def charts(operation: str, summaries: list[StrategySummary]) -> dict[str, str]:
    """Return the charts of an operation as SVG, by title."""

    def shares(part: str, whole: str) -> list[Bar]:
        found = []
        for each in summaries:
            count, total = getattr(each, part), getattr(each, whole)
            share = min(1.0, count / total) if total else 0.0
            text = f"{formats.percent(share)} ({count:,})" if count else "0"
            found.append(Bar(each.strategy, share, text, each.verdict == "wrong"))
        return found

    def values(name: str, unit: str) -> list[Bar]:
        return [
            Bar(each.strategy, value, f"{value:,.0f}{unit}", each.verdict == "wrong")
            for each in summaries
            for value in [getattr(each, name)]
        ]

    of_all = {OPERATIONS[operation].lost.capitalize(): shares("lost", "of")}
    if any(each.edits for each in summaries):
        of_all["Edits undone"] = shares("undone", "edits")
    if any(each.errors for each in summaries):
        of_all["Errors"] = shares("errors", "of")
    drawn = {title: bars(title, content, full=1) for title, content in of_all.items()}
    units = {"Answered per second": ("per_second", ""), "Slowest 1 % took at least": ("p99", " ms")}
    return drawn | {title: bars(title, values(*unit)) for title, unit in units.items()}
