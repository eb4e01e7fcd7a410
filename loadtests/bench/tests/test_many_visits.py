"""The tables of many visits in a small size."""

import re

import pytest

from project.tests.conftest import ROOT, run_in

SMALL = (
    "-c",
    "from loadtests.bench import many_visits as it; it.MANY_KINDS, it.YEAR = 3, 60; it.main()",
)


@pytest.mark.exhaustive
def test_makes_the_tables_and_reads_what_pages_show() -> None:
    settings = {"HOME": str(ROOT), "SHORTURL_LOCAL": "on", "SHORTURL_VISITS_HOURLY_DAYS": "0"}
    ended = run_in(ROOT, *SMALL, "--links", "1000", **settings)
    assert ended.returncode == 0, ended.stderr
    assert "| 100 visits in 100 rows | 30 days by day | " in ended.stdout
    # 60 days of 200 kinds have less than a third of their rows.
    [rows] = set(re.findall(r" visits in (\d,\d{3}) rows \| all by month \| ", ended.stdout))
    assert int(rows.replace(",", "")) < 60 * 200 / 3 + 200
    assert "| 100 links | Fading | " in ended.stdout
