"""The report, as it is printed, written and shown in the documents."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from benchmarks import report
from benchmarks.bench import Part, Subject
from benchmarks.goals import ONE_LINE, SERVICE
from benchmarks.measurements import Load, Measurement
from benchmarks.report import Report, with_block
from benchmarks.tests.test_measurements import measured
from loadtests.harness.serving import ROOT


def made(service: Measurement, *, miscounted: int = 0) -> Report:
    larger = measured(SERVICE, 123_456, load=Load(links=10_000_000))
    found = [service, measured(ONE_LINE, 2_000), larger]
    part = Part("<Title>", [[Subject(one.subject, [one.load]) for one in found]], 1)
    part.found.update({(one.subject, one.load): one for one in found})
    return Report([part], {"machine": "2 × Processor"}, miscounted=miscounted, seconds=61.2)


def test_everything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "REPORTS", tmp_path)
    made(measured(SERVICE, 1_000, pgbench=900)).write()
    data = json.loads((tmp_path / "bench.json").read_text())
    assert list(data["ratios"].values()) == [1.111, 0.5]
    assert [row["subject"] for row in data["parts"]["<Title>"]] == [SERVICE, ONE_LINE, SERVICE]
    page = (tmp_path / "bench.html").read_text()
    assert "<h2>&lt;Title&gt;</h2>" in page
    assert "<td>one-line WSGI</td>" in page
    assert not re.search("<script|src=|@import", page)
    picture = Xml.fromstring((tmp_path / "bench.svg").read_text())
    assert {"pgbench", "service", "1000"} <= set(picture.itertext())
    assert "123456" not in picture.itertext()
    printed = capsys.readouterr().out
    assert "Of 3,000 answers, 0 were not counted" in printed
    assert "- duration: 61 s" in printed


@pytest.mark.parametrize(
    ("per_second", "miscounted", "late", "passes"),
    [(1_000, 0, 0, True), (1_000, 1, 0, False), (1_000, 0, 1, False), (600, 0, 0, False)],
)
def test_what_passes(per_second: float, miscounted: int, late: int, passes: bool) -> None:
    service = measured(SERVICE, per_second, pgbench=900)
    service.readings[0].sample.errors["too late"] = late
    assert made(service, miscounted=miscounted).passes is passes


def test_the_documents_have_a_block_each() -> None:
    block = "a\n<!-- make bench -->\n{}\n<!-- end -->\nb\n<!-- end -->\n"
    assert with_block(block.format("old\n\nlines"), r"new \1") == block.format(r"new \1")
    for path in (ROOT / "README.md", ROOT / "docs" / "benchmarks.md"):
        assert with_block(path.read_text(), "") != path.read_text()
