"""The sentence of a result, and the table of several."""

import re
from dataclasses import replace
from typing import Any

import pytest

from loadtests.harness import comparison, reports
from loadtests.harness.result import LoadResult

ALONE = "safe only outside of a transaction"
NAIVE = LoadResult(
    "lost_update", "naive", "resolving", "wrong", lost=700, of=1000, undone=9, edits=10,
    per_second=500.0, p50=5, p99=40, proofs=[["Two redirects:", "one", "two"]],
)  # fmt: skip
RIGHT = LoadResult("lost_update", "update_returning", "resolving", "right", of=1000)
FAILING = LoadResult(
    "toctou", "naive", "creating", "wrong", lost=3, of=9, failed=3, errors={"500 IntegrityError": 3}
)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "right, and the invariant held"),
        ({"lost": 1}, "right, BUT the invariant was violated"),
        ({"verdict": ALONE}, f"{ALONE}, and the invariant held"),
        ({"verdict": "wrong"}, "wrong, BUT the invariant held"),
        ({"verdict": "wrong", "undone": 1}, "wrong, and the invariant was violated"),
        ({"verdict": "wrong", "failed": 1}, "wrong, BUT the invariant held"),
        ({"reason": "cut short"}, "inconclusive: cut short"),
    ],
)
def test_the_sentence(changes: dict[str, Any], sentence: str) -> None:
    assert reports.sentence(replace(RIGHT, **changes)) == sentence


def test_the_table_adds_up_the_conclusive_runs_of_each_strategy() -> None:
    again = replace(NAIVE, lost=0, undone=0, per_second=700.0)
    inconclusive = replace(NAIVE, reason="cut short", lost=5)
    text = comparison.tables([RIGHT, FAILING, NAIVE, again, inconclusive], "pipe")
    cells = [re.split(r" *\| *", line)[1:-1] for line in text.splitlines() if "| `" in line]
    naive = ["⛔ wrong", "700 of 2,000 (35.0%)", "9 of 20", "0", "600", "5 ms", "40 ms", "1 of 3"]
    assert [row[0] for row in cells] == ["`naive`", "`naive`", "`update_returning`"]
    assert cells[0][1:4] == ["⛔ wrong", "3 of 9 (33.3%)", "3"]
    assert cells[1][1:] == naive
