"""The benchmark's table, and the claim that it is there to check."""

import pytest

from benchmarks import rows
from benchmarks.rows import CEILING, HOT, Load, Row
from benchmarks.wrk import Sample


def sample(per_second: float, *, p50: float = 1.0) -> Sample:
    return Sample(round(per_second * 2), 2.0, p50, 9.0, 0)


def hot(strategy: str, *per_second: float) -> Row:
    return Row(strategy, HOT, [sample(each) for each in per_second])


def test_a_row_is_a_share_of_both_ceilings() -> None:
    found = [
        Row(CEILING, Load(None, 1), [sample(10)]),
        Row(CEILING, Load(None, 16), [sample(4_000)]),
        Row("update_returning", HOT, [sample(1_000)], ceilings=[2_500.0, 2_600.0, 1.0]),
    ]
    *_, last = rows.markdown(found)
    assert last == "| update_returning | 1 | 16 | 1,000 | 1.0 | 9.0 | 25% | 2,500 | 40% |"
    data = rows.as_data(found)[-1]
    assert (data["of_framework"], data["of_database"]) == (0.25, 0.4)


def test_without_pgbench_its_columns_stay_empty() -> None:
    found = [Row(CEILING, Load(None, 16), [sample(4_000)]), hot("naive", 1_000)]
    *_, last = rows.markdown(found)
    assert last.endswith("| 25% | – | – |")
    assert rows.as_data(found)[-1]["of_database"] is None


def test_the_median_of_the_rounds_counts() -> None:
    row = Row("naive", HOT, [sample(1, p50=5), sample(900, p50=2), sample(1_000, p50=3)])
    assert (row.per_second, row.p50) == (900, 3)


def test_ratios_are_taken_within_a_round() -> None:
    """In the second round everything takes ten times as long, and nothing else changes."""
    found = [
        hot("update_returning", 2_000, 200, 2_000),
        hot("f_expression", 1_000, 100, 1_000),
        hot("select_for_update", 500, 50, 500),
        Row("update_returning", Load(10_000, 16), [sample(1)] * 3),
    ]
    assert rows.ratios(found) == {"f_expression": 2, "select_for_update": 4}


@pytest.mark.parametrize(("slower", "outcome"), [(1.5, "as it must"), (1.49, "it must be more")])
def test_the_claim_is_judged(slower: float, outcome: str) -> None:
    assert outcome in rows.claim({"f_expression": slower, "select_for_update": 2.0})
