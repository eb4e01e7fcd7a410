"""The service recovers from kill -9 and from a PostgreSQL that goes down; no hit is lost."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from loadtests.faults import FAULTS, experiment
from loadtests.faults.__main__ import exit_code
from loadtests.harness import formats
from loadtests.harness.reconciliation import ExitCode, LoadResult
from loadtests.harness.serving import ROOT

TIMEOUT = 240  # seconds; it takes some 15

AFFECTED = LoadResult(
    "lost_update", "update_returning", "resolving", "right", errors={"503": 1}, acknowledged=9
)


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "loadtests.faults", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )


@pytest.mark.exhaustive
def test_short(tmp_path: Path) -> None:
    """Acknowledged hits ≤ counted hits ≤ requests sent, whatever fails."""
    ended = run("--short", "--reports", str(tmp_path))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for fault in FAULTS:
        assert f" s  {fault.name}\n" in ended.stdout
    assert "unknown outcome" in ended.stdout
    result = formats.read(tmp_path, "lost_update", "update_returning")
    assert result.acknowledged > len(FAULTS) * experiment.HITS
    assert result.errors
    assert (result.lost, result.doubled, result.failed) == (0, 0, 0)


@pytest.mark.exhaustive
def test_a_commit_that_is_not_on_the_disk_is_lost_in_a_crash(tmp_path: Path) -> None:
    """PostgreSQL acknowledges a COMMIT and writes it later; what this loses, the ledger shows."""
    ended = run("--short", "--async", "--reports", str(tmp_path))
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert formats.read(tmp_path, "lost_update", "update_returning").lost_hits > 0


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, ExitCode.AS_EXPECTED),
        ({"lost": 1}, ExitCode.UNEXPECTED),
        ({"doubled": 1}, ExitCode.UNEXPECTED),
        ({"errors": {}}, ExitCode.INCONCLUSIVE),  # faults that affected no request prove nothing
        ({"errors": {}, "unknown": 1}, ExitCode.AS_EXPECTED),
    ],
)
def test_the_exit_code(changes: dict[str, int], code: ExitCode) -> None:
    assert exit_code(replace(AFFECTED, **changes)) is code  # type: ignore[arg-type]


def test_a_wrong_strategy_is_refused() -> None:
    ended = run("--strategy", "naive")
    assert ended.returncode == 2
    assert "invalid choice: 'naive'" in ended.stderr
