"""The tables of many visits, made small."""

import pytest

from project.tests.conftest import ROOT, run_in

MODULE = ("-m", "benchmarks.many_visits")


@pytest.mark.exhaustive
def test_makes_the_tables_and_reads_what_pages_show() -> None:
    sizes = ("--links", "1000", "--visits", "100000", "--kinds", "3")
    settings = {"HOME": str(ROOT), "SHORTURL_LOCAL": "on", "SHORTURL_VISITS_HOURLY_DAYS": "0"}
    ended = run_in(ROOT, *MODULE, *sizes, "--plans", **settings)
    assert ended.returncode == 0, ended.stderr
    assert "| 100 visits in 100 rows | 30 days by day | " in ended.stdout
    assert " visits in 73,000 rows | all by month | " in ended.stdout
    assert "| 100 links | Fading | " in ended.stdout
    assert "Execution Time: " in ended.stdout


def test_too_few() -> None:
    ended = run_in(ROOT, *MODULE, "--links", "0", HOME=str(ROOT), SHORTURL_LOCAL="on")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "--links and --visits are at least 1,000" in ended.stderr
