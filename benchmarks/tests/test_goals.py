"""When a run passes: the goals, and what was neither counted nor answered."""

from statistics import mean, median

import pytest

from benchmarks import goals
from benchmarks.bench import Part
from benchmarks.goals import GOALS, ONE_LINE, PGBENCH, SERVICE, Goal
from benchmarks.measurements import Load, Measurement, Reading, median_ratio
from benchmarks.report import Report, with_block
from benchmarks.wrk import Sample
from loadtests.harness.serving import ROOT


def measured(
    subject: str, per_second: float, *, load: Load = goals.HOT, pgbench: float | None = None
) -> Measurement:
    sample = Sample(1_000, per_second, 1.0, 9.0, 20.04, {})
    return Measurement(subject, load, [Reading(sample, 250.4, None, pgbench)])


def test_the_ratio_is_the_median_of_the_rounds_ratios() -> None:
    """And not the ratio of the medians, nor the mean: the rounds' ratios are 1, 3 and 4."""
    ours, theirs = (100, 300, 200), (100, 100, 50)
    assert median_ratio(ours, theirs) == 3
    assert 3 not in (median(ours) / median(theirs), mean([1, 3, 4]))
    assert median_ratio([100, None, 300], [50, 1, None]) == 2
    assert median_ratio([100], [None]) is None


TEN, RANDOM = Load(keys="random", links=10), Load(keys="random")


@pytest.mark.parametrize(
    ("goal", "ratio"),
    [
        (Goal(SERVICE, goals.HOT, PGBENCH, 1), 0.5),
        (Goal(SERVICE, goals.HOT, ONE_LINE, 1), 0.25),
        (Goal(SERVICE, TEN, SERVICE, 1, RANDOM), 0.9),
        (Goal(SERVICE, Load(64), PGBENCH, 1), None),
        (Goal(SERVICE, RANDOM, ONE_LINE, 1), None),
    ],
)
def test_a_goal_compares(goal: Goal, ratio: float | None) -> None:
    found = [
        measured(SERVICE, 1_000, pgbench=2_000),
        measured(ONE_LINE, 4_000),
        measured(SERVICE, 800, load=RANDOM),
        measured(SERVICE, 720, load=TEN),
    ]
    assert goal.ratio({(one.subject, one.load): one for one in found}) == ratio


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
