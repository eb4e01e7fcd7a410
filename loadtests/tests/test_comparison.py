"""What is printed and written of the results."""

import csv
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from loadtests.harness import comparison, formats
from loadtests.harness.charts import Bar, bars
from loadtests.harness.page import page
from loadtests.harness.reconciliation import LoadResult

ABOUT: dict[str, Any] = {
    "command": "make races",
    "date": "2026-01-31",
    "users": 32,
    "seconds": 6,
    "machine": "2 × Processor, Linux",
    "versions": {"Python": "3.14", "PostgreSQL": "18.1"},
    "notes": ["<busy>"],
}


def result(operation: str, strategy: str, verdict: str, /, **values: Any) -> LoadResult:
    script = {"resolving": "lost_update", "creating": "toctou"}[operation]
    values = {"of": 1000, "per_second": 500.0, "p50": 5, "p99": 40, **values}
    return LoadResult(script, strategy, operation, verdict, **values)


NAIVE = result(
    "resolving", "naive", "wrong", lost=700, share=0.7, low=0.67, high=0.73, undone=9, edits=10,
    requests=1010, acknowledged=1010, cpu=0.95, seconds=2.0,
    proofs=[["Two <redirects>:", "one", "two"]],
)  # fmt: skip
RIGHT = result("resolving", "update_returning", "right", edits=7, per_second=900.0)
FAILING = result(
    "creating", "naive", "wrong", lost=3, failed=3, share=0.003, errors={"500 IntegrityError": 3}
)
ALONE = result("creating", "forgiveness", "right alone, wrong inside a transaction")
ALL = [RIGHT, FAILING, NAIVE, ALONE]


def test_the_text_of_a_run() -> None:
    text = formats.text(NAIVE)
    assert text.startswith("lost_update naive: wrong, and the invariant was violated\n")
    assert "700 of 1,000 = 70.0% (95 % interval 67.0% to 73.0%)" in text
    assert re.search("edits undone +9 of 10\n", text)
    assert re.search("redirects per second +500 in 2.0 s\n", text)
    assert re.search(r"p50 / p95 / p99 +5.0 / 0.0 / 40.0 ms\n", text)
    assert "\n  Two <redirects>:\n    one\n    two\n" in text
    assert text.endswith("  The load generator was saturated: try more --processes.")
    assert "generator was saturated" not in formats.text(RIGHT)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "right, and the invariant held"),
        ({"lost": 1}, "right, BUT the invariant was violated"),
        ({"verdict": ALONE.verdict}, "right alone, and the invariant held"),
        ({"verdict": "wrong"}, "wrong, BUT the invariant held"),
        ({"verdict": "wrong", "undone": 1}, "wrong, and the invariant was violated"),
        ({"reason": "cut short"}, "inconclusive: cut short"),
    ],
)
def test_the_sentence(changes: dict[str, Any], sentence: str) -> None:
    of = LoadResult(
        **{"script": "", "strategy": "", "operation": "", "verdict": "right", **changes}
    )
    assert formats.sentence(of) == sentence


@pytest.mark.parametrize(
    ("operation", "parts"), [("resolving", 0), ("creating", 3), ("service", 2)]
)
def test_what_is_lost_has_its_parts(operation: str, parts: int) -> None:
    rows = formats.rows(LoadResult("script", "naive", operation, "wrong", failed=1))
    assert sum(name.startswith("…") for name, _ in rows) == parts


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0.0%"), (0.00042, "0.042%"), (0.001, "0.1%"), (1, "100.0%")]
)
def test_a_small_share_is_told_from_zero(share: float, text: str) -> None:
    assert formats.percent(share) == text


def test_the_files_of_a_run(tmp_path: Path) -> None:
    path = formats.write(FAILING, tmp_path / "new")
    assert path.name == "toctou-naive.json"
    assert formats.read(tmp_path / "new", "toctou", "naive") == FAILING
    data = json.loads(path.read_text())
    assert (data["exit_code"], data["errors"]) == (0, {"500 IntegrityError": 3})
    with path.with_suffix(".csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["strategy"], row["lost"], row["exit_code"]) == ("naive", "3", "0")


def test_a_summary_of_the_runs_of_a_strategy() -> None:
    again = result("resolving", "naive", "wrong", per_second=700.0, edits=2)
    inconclusive = result("resolving", "naive", "wrong", reason="cut short", lost=5)
    summary = comparison.summarize([NAIVE, again, inconclusive])
    assert (summary.runs, summary.violated) == (3, 1)
    assert (summary.lost, summary.of, summary.undone, summary.edits) == (700, 2000, 9, 12)
    assert (summary.per_second, summary.share) == (600, 0.35)


def test_the_tables_have_the_order_of_the_strategies() -> None:
    text = comparison.plain(comparison.compare(ALL))
    names = re.findall(r"^(\w+) +[✅⛔⚠]", text, re.MULTILINE)
    assert names == ["naive", "forgiveness", "naive", "update_returning"]


def test_markdown() -> None:
    text = comparison.markdown(comparison.compare(ALL), ABOUT)
    cells = [re.split(r" *\| *", line)[1:-1] for line in text.splitlines() if "| `" in line]
    expected = ["`naive`", "⛔ wrong", "700 of 1,000 (70.0%)", "9 of 10"]
    assert cells[2] == [*expected, "0", "500", "5 ms", "40 ms", "1 of 1"]
    assert [len(each) for each in cells] == [8, 8, 9, 9]
    assert text.endswith(
        "`make races`, 2026-01-31: 32 users for 6 s each, on 2 × Processor, Linux; "
        "Python 3.14, PostgreSQL 18.1."
    )


def test_the_page_is_one_file_without_scripts() -> None:
    html = page(ALL, ABOUT)
    assert not re.search(r"src=|href=|url\(|@import|<script|<link", html)
    assert "&lt;busy&gt;" in html
    assert "Two &lt;redirects&gt;:" in html
    assert "<td>700 of 1,000 (70.0%)</td>" in html
    pictures = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    names = [str(Xml.fromstring(picture).attrib["aria-label"]) for picture in pictures]
    speed = ["Answered per second", "Slowest 1 % took at least"]
    assert names == ["Creates lost", "Errors", *speed, "Hits lost", "Edits undone", *speed]


def test_bars_are_as_long_as_their_values() -> None:
    content = [Bar(f"<{share}>", share, f"{share:.0%}", wrong=share > 0) for share in (1, 0.5, 0)]
    svg = Xml.fromstring(bars("<title>", content, full=1))
    by_text = {
        str(bar[1].text): float(bar[0].attrib.get("width", 0))
        for bar in svg.iter()
        if bar.attrib.get("class") == "bar"
    }
    assert by_text["50%"] == pytest.approx(by_text["100%"] / 2)
    assert by_text["0%"] == 0
    assert {text.text for text in svg.iter() if text.tag.endswith("}text")} >= {"<0.5>", "50%"}
