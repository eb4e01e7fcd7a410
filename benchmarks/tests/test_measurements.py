"""The benchmark's tables, and the goals that it checks."""

from statistics import mean, median

import pytest

from benchmarks import goals, measurements
from benchmarks.goals import GOALS, ONE_LINE, PGBENCH, SERVICE, Goal
from benchmarks.measurements import Load, Measurement, Reading, median_ratio
from benchmarks.wrk import Sample


def measured(
    subject: str, *per_second: float, load: Load = goals.HOT, pgbench: float | None = None
) -> Measurement:
    samples = [Sample(1_000, each, 1.0, 9.0, 20.04, {}) for each in per_second]
    readings = [Reading(sample, 250.4, None, pgbench) for sample in samples]
    return Measurement(subject, load, readings)


def test_a_line() -> None:
    found = [
        measured("naive", 1, 1_000, 900, pgbench=1_800, load=Load(64, "Zipf", 1_000_000)),
        measured("naive", 2_000),  # without pgbench
    ]
    full, partial = (line.split("|") for line in measurements.table(found).splitlines()[-2:])
    assert [cell.strip() for cell in full[1:-1]] == [
        "naive", "Zipf of 1,000,000", "64",
        "900", "1.0", "9.0", "20.0", "250", "–", "1,800", "50%", "0",
    ]  # fmt: skip
    assert [cell.strip() for cell in partial[-4:-1]] == ["–", "–", "0"]
    data = found[0].as_data()
    assert (data["per_second"], data["rounds"]) == (900, [1, 1_000, 900])
    assert (data["keys"], data["links"], data["of_pgbench"]) == ("Zipf", 1_000_000, 0.5)


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


def test_goals_that_are_met() -> None:
    exactly = {goal: goal.at_least for goal in GOALS}
    assert goals.met(exactly)
    assert not goals.met(exactly | {GOALS[0]: GOALS[0].at_least - 0.01})
    (line,) = goals.table({GOALS[0]: 0.5}).splitlines()[2:]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["service, one key of 10,000, 16 connections / pgbench", "0.50", "1.00", "no"]
