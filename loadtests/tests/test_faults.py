"""The service comes back from kill -9 and from a PostgreSQL that goes away; no hit is lost."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from loadtests import faults
from loadtests.harness import trial
from loadtests.harness.serving import ROOT
from loadtests.harness.verdict import Exit, Verdict
from shorturl import strategies
from shorturl.resolving import STRATEGIES

TIMEOUT = 240  # seconds; it takes some 15

MET = Verdict(
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


def test_short(tmp_path: Path) -> None:
    ended = run("--short", "--reports", str(tmp_path))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for fault in ("kill -9 of a gunicorn worker", "restart of PostgreSQL", "crash of PostgreSQL"):
        assert f" s  {fault}\n" in ended.stdout
    assert "unknown outcome" in ended.stdout
    verdict = json.loads((tmp_path / "lost_update-update_returning.json").read_text())
    assert verdict["acknowledged"] > 3 * trial.HITS
    assert verdict["errors"]
    assert (verdict["lost"], verdict["doubled"], verdict["failed"]) == (0, 0, 0)


@pytest.mark.exhaustive
def test_a_commit_that_is_not_on_the_disk_is_lost_in_a_crash(tmp_path: Path) -> None:
    """PostgreSQL says COMMIT and writes later; what this loses, the ledger shows."""
    ended = run("--short", "--async", "--reports", str(tmp_path))
    assert ended.returncode == 1, ended.stdout + ended.stderr
    verdict = json.loads((tmp_path / "lost_update-update_returning.json").read_text())
    assert verdict["lost_hits"] > 0


def test_a_lost_hit_is_a_failure() -> None:
    assert faults.judge(MET) is Exit.AS_THE_TABLE_SAYS
    assert faults.judge(replace(MET, lost=1)) is Exit.OTHERWISE
    assert faults.judge(replace(MET, doubled=1)) is Exit.OTHERWISE


def test_faults_that_nobody_has_met_prove_nothing() -> None:
    assert faults.judge(replace(MET, errors={})) is Exit.NOT_JUDGED
    assert faults.judge(replace(MET, errors={}, unknown=1)) is Exit.AS_THE_TABLE_SAYS


def test_the_wrong_strategies_are_those_of_the_table() -> None:
    wrong = {s.name for s in STRATEGIES.values() if s.verdict is strategies.Verdict.WRONG}
    assert wrong == faults.WRONG


def test_a_wrong_strategy_is_refused() -> None:
    ended = run("--strategy", "naive")
    assert ended.returncode == 2
    assert "invalid choice: 'naive'" in ended.stderr
