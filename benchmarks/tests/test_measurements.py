"""The benchmark's table, and the claim that it checks."""

from statistics import mean, median

import pytest

from benchmarks import measurements
from benchmarks.measurements import AT_LEAST, CEILING, HOT, Load, Measurement
from benchmarks.wrk import Sample


def sample(per_second: float, *, p50: float = 1.0, errors: int = 0) -> Sample:
    return Sample(round(per_second * 2), 2.0, p50, 9.0, errors)


def hot(strategy: str, *per_second: float, errors: int = 0) -> Measurement:
    samples = [sample(each, errors=errors) for each in per_second]
    return Measurement(strategy, HOT, samples, processor=[0.0005])


def test_a_line_has_the_share_of_both_ceilings() -> None:
    found = [
        Measurement(CEILING, Load(None, 1), [sample(10)], processor=[0.001]),
        Measurement(CEILING, HOT, [sample(4_000)], processor=[0.0002]),
        Measurement(
            "update_returning", HOT, [sample(1_000)], [2_500.0, 2_600.0, 1.0], [0.0004, 0.0003, 1]
        ),
        hot("naive", 2_000),  # without pgbench
    ]
    *_, full, partial = (line.split() for line in measurements.markdown(found).splitlines())
    assert " ".join(full) == (
        "| update_returning | 1 | 16 | 1,000 | 1.0 | 9.0 | 400 | 25% | 2,500 | 40% |"
    )
    assert partial[-6:] == ["50%", "|", "–", "|", "–", "|"]
    *_, first, second = measurements.as_data(found)
    assert (first["of_one_line"], first["of_database"]) == (0.25, 0.4)
    assert second["of_database"] is None


def test_the_median_of_the_rounds_counts() -> None:
    one = Measurement("naive", HOT, [sample(1, p50=5), sample(900, p50=2), sample(1_000, p50=3)])
    assert (one.per_second, one.p50) == (900, 3)


def test_the_ratio_is_the_median_of_the_rounds_ratios() -> None:
    """And not the ratio of the medians, nor the mean: the rounds' ratios are 1, 3 and 4."""
    ours, theirs = (100, 300, 200), (100, 100, 50)
    found = [
        hot("update_returning", *ours),
        hot("f_expression", *theirs),
        hot("select_for_update", *ours),
        Measurement("update_returning", Load(10_000, 16), [sample(1)] * 3),
    ]
    assert measurements.ratios(found) == {"f_expression": 3, "select_for_update": 1}
    assert 3 not in (median(ours) / median(theirs), mean([1, 3, 4]))


@pytest.mark.parametrize(
    ("slowest", "outcome"), [(AT_LEAST, "as required"), (1.49, "which is not enough")]
)
def test_the_claim_is_checked(slowest: float, outcome: str) -> None:
    assert outcome in measurements.claim({"f_expression": slowest, "select_for_update": 2.0})


@pytest.mark.parametrize(
    ("fastest", "lost", "errors", "passes"),
    [(1_500, 0, 0, True), (1_490, 0, 0, False), (1_500, 1, 0, False), (1_500, 0, 1, False)],
)
def test_what_passes(fastest: int, lost: int, errors: int, passes: bool) -> None:
    found = [
        hot("update_returning", fastest),
        hot("f_expression", 1_000, errors=errors),
        hot("select_for_update", 500),
    ]
    assert measurements.passes(found, lost=lost) is passes
