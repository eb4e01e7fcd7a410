"""The table of faults: which outcomes are misses, and that a lost hit is noticed."""

import sys
from dataclasses import replace

import pytest

from loadtests.faults.__main__ import cells, exit_code
from loadtests.faults.experiment import FaultOutcome, Figure, NotRecovered
from loadtests.faults.table import FAULTS
from loadtests.harness.own_proxies import NotInstalled
from loadtests.harness.result import ExitCode, LoadResult
from loadtests.tests.conftest import ended

RIGHT = LoadResult("faults", "service", "service", "right", requests=9, acknowledged=9)
KEPT = FaultOutcome(7, 8, 9, [Figure("longest wait", 0.5, 1, " s")], RIGHT)


@pytest.mark.parametrize(
    ("outcome", "missed"),
    [
        (KEPT, ""),
        (KEPT._replace(acknowledged=9, hits=9), ""),
        (KEPT._replace(acknowledged=9), "acknowledged ≤ hits ≤ sent"),
        (KEPT._replace(figures=[Figure("wait", 99, None, " s")]), ""),
        (KEPT._replace(hits=10), "acknowledged ≤ hits ≤ sent"),
        (KEPT._replace(figures=[Figure("wait", 1.01, 1, " s")]), "wait 1.01 ≤ 1 s"),
        (KEPT._replace(figures=[Figure("keys", 79, 80, " %", least=True)]), "keys 79 ≥ 80 %"),
        (KEPT._replace(result=replace(RIGHT, missing=1, lost=1)), "the ledger"),
        (KEPT._replace(result=replace(RIGHT, failed=1, errors={"500": 1})), "the ledger: 1 × 500"),
        (NotRecovered("no answer within 60 s"), "no answer within 60 s"),
    ],
)
def test_a_missed_bound_is_printed_and_sets_the_exit_code(
    outcome: FaultOutcome | NotRecovered, missed: str
) -> None:
    told = "  ".join(cells(FAULTS[0], outcome))
    assert f"MISSED: {missed}" in told if missed else "MISSED" not in told
    code = ExitCode.UNEXPECTED if missed else ExitCode.AS_EXPECTED
    assert exit_code([KEPT, NotInstalled("no PgBouncer"), outcome]) is code


def test_with_counts_only_a_missed_time_is_no_failure() -> None:
    slow = KEPT._replace(figures=[Figure("longest wait", 2, 1, " s")])
    assert exit_code([slow], counts_only=True) is ExitCode.AS_EXPECTED
    for wrong in (slow._replace(hits=10), NotRecovered("no answer within 60 s")):
        assert exit_code([slow, wrong], counts_only=True) is ExitCode.UNEXPECTED


def test_a_run_with_all_faults_skipped_is_inconclusive() -> None:
    skipped = NotInstalled("no PgBouncer is installed")
    assert cells(FAULTS[0], skipped)[1] == "skipped: no PgBouncer is installed"
    assert exit_code([skipped]) is ExitCode.INCONCLUSIVE


@pytest.mark.exhaustive
def test_a_commit_that_is_not_on_the_disk_is_lost_in_a_crash() -> None:
    """PostgreSQL acknowledges a COMMIT and writes it later. The ledger shows the loss.

    Three times, as a busy machine may write it before the crash.
    """
    crashes = ["crash_postgres"] * 3
    told = ended(sys.executable, "-m", "loadtests.faults", "--async", *crashes)
    assert told.returncode == 1, told.stdout + told.stderr
    assert "MISSED: acknowledged ≤ hits ≤ sent, the ledger" in told.stdout
