"""What is printed and written of the verdicts."""

import csv
import itertools
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from loadtests.harness import report, result
from loadtests.harness.charts import Bar, Point, bars, scatter, ticks
from loadtests.harness.page import page
from loadtests.harness.verdict import Verdict

ABOUT: dict[str, Any] = {
    "command": "make races",
    "date": "2026-01-31",
    "users": 32,
    "seconds": 6,
    "machine": "2 × Processor, Linux",
    "versions": {"Python": "3.14", "PostgreSQL": "18.1"},
    "notes": ["<busy>"],
}


def verdict(operation: str, strategy: str, table: str, /, **changes: Any) -> Verdict:
    script = {"resolving": "lost_update", "creating": "toctou"}[operation]
    made = Verdict(script, strategy, operation, table, of=1000, per_second=500.0, p50=5, p99=40)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


NAIVE = verdict(
    "resolving", "naive", "wrong", lost=700, share=0.7, low=0.67, high=0.73, undone=9, edits=10,
    requests=1010, acknowledged=1010, cpu=0.25, seconds=2.0,
    proofs=[["Two <redirects>:", "one", "two"]],
)  # fmt: skip
RIGHT = verdict("resolving", "update_returning", "right", edits=7, per_second=900.0)
FAILING = verdict(
    "creating", "naive", "wrong", lost=3, failed=3, share=0.003, errors={"500 IntegrityError": 3}
)
ALONE = verdict("creating", "forgiveness", "right alone, wrong inside a transaction")
ALL = [RIGHT, FAILING, NAIVE, ALONE]


def test_the_text_of_a_run() -> None:
    text = result.text(NAIVE)
    assert text.startswith("lost_update naive: wrong, and it broke\n")
    assert "700 of 1,000 = 70.0% (95 % interval 67.0% to 73.0%)" in text
    assert re.search("edits undone +9 of 10\n", text)
    assert re.search("redirects per second +500 in 2.0 s\n", text)
    assert re.search(r"p50 / p95 / p99 +5.0 / 0.0 / 40.0 ms\n", text)
    assert text.endswith("  Two <redirects>:\n    one\n    two")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "right, and nothing broke"),
        ({"lost": 1}, "right, BUT it broke"),
        ({"table": ALONE.table}, "right alone, and nothing broke"),
        ({"table": "wrong"}, "wrong, BUT nothing broke"),
        ({"table": "wrong", "doubled": 1}, "wrong, and it broke"),
        ({"reason": "cut short"}, "not judged: cut short"),
    ],
)
def test_the_sentence(changes: dict[str, Any], sentence: str) -> None:
    assert result.sentence(verdict("resolving", "naive", "right", **changes)) == sentence


@pytest.mark.parametrize(
    ("operation", "parts"), [("resolving", 0), ("creating", 3), ("service", 2)]
)
def test_what_is_lost_has_its_parts(operation: str, parts: int) -> None:
    rows = result.rows(Verdict("script", "naive", operation, "wrong", failed=1))
    assert sum(name.startswith("…") for name, _ in rows) == parts


def test_a_busy_load_generator_is_told() -> None:
    assert "load generator was busy" in result.text(
        verdict("resolving", "naive", "wrong", cpu=0.95)
    )


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0.0%"), (0.00042, "0.042%"), (0.001, "0.1%"), (1, "100.0%")]
)
def test_a_small_share_is_told_from_none(share: float, text: str) -> None:
    assert result.percent(share) == text


def test_the_files_of_a_run(tmp_path: Path) -> None:
    path = result.write(FAILING, tmp_path / "new")
    assert path.name == "toctou-naive.json"
    data = json.loads(path.read_text())
    assert result.from_data(data) == FAILING
    assert (data["exit_code"], data["errors"]) == (0, {"500 IntegrityError": 3})
    with path.with_suffix(".csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["strategy"], row["lost"], row["exit_code"]) == ("naive", "3", "0")


def test_rows_sum_up_the_runs_of_a_strategy() -> None:
    again = verdict("resolving", "naive", "wrong", per_second=700.0, edits=2)
    unjudged = verdict("resolving", "naive", "wrong", reason="cut short", lost=5)
    row = report.row([NAIVE, again, unjudged])
    assert (row.runs, row.broke, row.as_the_table_says) == (3, 1, 1)
    assert (row.lost, row.of, row.undone, row.edits) == (700, 2000, 9, 12)
    assert (row.per_second, row.share) == (600, 0.35)


def test_the_tables_have_the_order_of_the_strategies() -> None:
    text = report.plain(report.rows(ALL))
    names = re.findall(r"^(\w+) +[✅⛔⚠]", text, re.MULTILINE)
    assert names == ["naive", "forgiveness", "naive", "update_returning"]


def test_markdown() -> None:
    text = report.markdown(report.rows(ALL), ABOUT)
    assert (
        "| `naive` | ⛔ wrong | 700 of 1,000 (70.0%) | 9 of 10 | 0 | 500 | 5 ms | 40 ms | 1 of 1 |"
    ) in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("| `")}
    assert widths == {9, 10}
    assert text.endswith(
        "`make races`, 2026-01-31: 32 users for 6 s each, on 2 × Processor, Linux; "
        "Python 3.14, PostgreSQL 18.1."
    )


def test_the_page_needs_nothing_from_elsewhere() -> None:
    html = page(ALL, ABOUT)
    assert not re.search(r"src=|href=|url\(|@import|<script|<link", html)
    assert "&lt;busy&gt;" in html
    assert "Two &lt;redirects&gt;:" in html
    pictures = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    names = [str(Xml.fromstring(picture).attrib["aria-label"]) for picture in pictures]
    throughput = "Throughput against the slowest hundredth"
    assert sorted(names) == sorted(
        ["Hits lost", "Edits undone", "Creates lost", "Errors", throughput, throughput]
    )
    for picture in pictures:
        Xml.fromstring(picture)


def test_a_page_of_one_operation() -> None:
    assert report.TITLES["creating"] not in page([RIGHT], ABOUT)


def rectangles(picture: str) -> list[float]:
    return [float(rect.attrib["width"]) for rect in Xml.fromstring(picture).iter("rect")]


def test_bars_are_as_long_as_their_shares() -> None:
    of = [Bar(str(share), share, "", wrong=True) for share in (1.0, 0.5, 0.0001, 0)]
    whole, half, little, none = rectangles(bars("<title>", of))
    assert (half, none) == (whole / 2, 0)
    assert little == 2  # to be seen


def test_points_are_inside_and_their_labels_apart() -> None:
    of = [Point(f"<{place}>", 10.0, 10.0 + place / 100, wrong=False) for place in range(19)]
    picture = Xml.fromstring(scatter("title", "x", "y", of))
    _, _, width, height = map(float, picture.attrib["viewBox"].split())
    labels = [text for text in picture.iter("text") if (text.text or "").startswith("<")]
    ys = sorted(float(label.attrib["y"]) for label in labels)
    assert len(ys) == 19
    assert min(b - a for a, b in itertools.pairwise(ys)) >= 14
    assert max(ys) <= height
    for circle in picture.iter("circle"):
        assert 0 < float(circle.attrib["cx"]) < width
        assert 0 < float(circle.attrib["cy"]) < height


@pytest.mark.parametrize("most", [0.0, 0.3, 1, 5, 7, 49, 51, 999, 1001, 123_456])
def test_ticks(most: float) -> None:
    found = ticks(most)
    assert found[0] == 0
    assert found[-1] >= most
    assert 2 <= len(found) <= 6
    assert len({b - a for a, b in itertools.pairwise(found)}) == 1
