"""Which runs the names of `--only` mean."""

import pytest

from loadtests.every_strategy import PLAN, chosen


@pytest.mark.parametrize(
    ("only", "scripts"),
    [
        (["combined"], ["last_use", "lost_update", "same_hour"]),
        (["batches", "second_transaction"], ["same_hour", "visit_meanwhile"]),
        (["visit_meanwhile"], ["visit_meanwhile"] * 5),
        (["last_link", "reservation"], ["last_link"] * 6),
    ],
)
def test_a_strategy_is_one_of_each_operation_and_a_script_has_all(
    only: list[str], scripts: list[str]
) -> None:
    assert sorted(run.script for run in chosen(only)) == scripts


def test_without_names_everything_runs_and_no_name_has_two_meanings() -> None:
    assert chosen(None) == PLAN
    assert not {run.script for run in PLAN} & {run.strategy for run in PLAN}
