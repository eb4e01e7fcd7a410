"""When a run passes: the goals, and what was neither counted nor answered."""

import pytest

from benchmarks import goals
from benchmarks.bench import Part
from benchmarks.goals import GOALS, SERVICE
from benchmarks.measurements import Load, Measurement, Reading
from benchmarks.report import Report, with_block
from benchmarks.wrk import Sample
from loadtests.harness.serving import ROOT


def measured(
    subject: str, per_second: float, *, load: Load = goals.HOT, pgbench: float | None = None
) -> Measurement:
    sample = Sample(1_000, per_second, 1.0, 9.0, 20.04, {})
    return Measurement(subject, load, [Reading(sample, 250.4, None, pgbench)])


PGBENCH_RATE = 1_000 / GOALS[0].at_least  # with which 1,000 requests per second are enough


@pytest.mark.parametrize(
    ("per_second", "miscounted", "late", "passes"),
    [(1_000, 0, 0, True), (1_000, 1, 0, False), (1_000, 0, 1, False), (999, 0, 0, False)],
)
def test_what_passes(per_second: float, miscounted: int, late: int, passes: bool) -> None:
    service = measured(SERVICE, per_second, pgbench=PGBENCH_RATE)
    service.readings[0].sample.errors["too late"] = late
    part = Part("Title", [], 1, {(service.subject, service.load): service})
    assert Report([part], {}, miscounted=miscounted, seconds=1).passes is passes


def test_the_documents_have_a_block_each() -> None:
    block = "a\n<!-- make bench -->\n{}\n<!-- end -->\nb\n<!-- end -->\n"
    assert with_block(block.format("old\n\nlines"), r"new \1") == block.format(r"new \1")
    for path in (ROOT / "README.md", ROOT / "docs" / "benchmarks.md"):
        assert with_block(path.read_text(), "") != path.read_text()
