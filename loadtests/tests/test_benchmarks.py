"""The benchmarks: their arithmetic and tables, and the smallest run of each."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import psutil
import pytest

from loadtests import bench, bench_growth, bench_links, measuring, profiling
from loadtests.bench import LOADS, Bench, Load
from loadtests.servers import OwnPostgres, RunningService

needs_wrk = pytest.mark.skipif(not shutil.which("wrk"), reason="wrk is not installed")


@pytest.fixture
def here(
    service: RunningService, postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Let benchmarks use the service of these tests, and remove what they leave there."""
    monkeypatch.setattr(bench_links, "own_postgres", lambda: nullcontext(postgres))
    monkeypatch.setattr(bench_links, "serving", lambda *_, **__: nullcontext(service))
    yield
    for name in ("dailyvisits", "hourlyvisits", "recentvisits"):
        measuring.execute(postgres, f"TRUNCATE shorturl_{name}")
    measuring.execute(postgres, "DELETE FROM shorturl_shorturl WHERE target_url ~ 'example.com'")
    measuring.execute(postgres, "DELETE FROM auth_user")


def test_a_table_has_the_medians_and_a_dash_for_what_was_not_measured() -> None:
    measurements = {("a", LOADS[0]): [1.0, 9_000.0, 2_000.4], ("b", LOADS[1]): [4.0]}
    head, _line, *rows = bench.format_medians(measurements).splitlines()
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in (head, *rows)]
    assert cells[0][:3] == ["", "one key, 16 clients", "one key, 64 clients"]
    assert cells[1:] == [["a", "2,000", *"–––––"], ["b", "–", "4", *"––––"]]


@pytest.mark.usefixtures("here")
def test_a_given_database_gets_the_links_it_lacks_and_one_with_links_is_refused(
    postgres: OwnPostgres,
) -> None:
    given = bench_growth.GivenPostgres(postgres.url)
    pids = {process.pid for process in given.processes()}
    assert postgres.running.pid in pids
    assert os.getpid() not in pids
    number = "SELECT count(*) FROM shorturl_shorturl"
    there = measuring.execute(given, number)
    for more in (3, 0):
        bench_growth.add_links(given, there, there + more)
        there += more
        assert measuring.execute(given, number) == there
    with pytest.raises(SystemExit, match="has links: use an empty one"):
        bench_growth.add_links(given, there - 1, there)


def test_a_process_has_the_processor_time_of_its_children_that_have_ended() -> None:
    times = SimpleNamespace(user=1.0, system=2.0, children_user=4.0, children_system=8.0)
    process, ended = MagicMock(), MagicMock()
    process.cpu_times.return_value = times
    ended.cpu_times.side_effect = psutil.NoSuchProcess(1)
    postgres: Any = SimpleNamespace(processes=lambda: [process, process])
    service: Any = SimpleNamespace(workers=[ended, process])
    seconds = measuring.read_processor_seconds(postgres, service)
    assert seconds == {"service": 15, "PostgreSQL": 30}


@needs_wrk
@pytest.mark.usefixtures("here")
def test_wrk_and_pgbench_measure_each_kind_of_load(
    service: RunningService, postgres: OwnPostgres
) -> None:
    measuring.execute(postgres, measuring.FILL.format(first=1, last=bench.LINKS))
    results = Bench(postgres, seconds=1)
    for kind in bench.SQL:
        results.measure(bench.SUBJECTS[1], service, Load(kind, 2))
        results.measure_pgbench(Load(kind, 2))
    assert results.miscounted == 0
    assert len(results.per_second) == len(results.processor_time) == 2 * len(bench.SQL)
    for measurements in (results.per_second, results.processor_time):
        assert all(0 < number < 1e6 for (number,) in measurements.values())


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("scanned", "exit_code"), [("a year of all links", 0), ("30 days of a link", 1)]
)
def test_a_page_that_scans_all_visits_fails_unless_it_is_of_a_year(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    postgres: OwnPostgres,
    scanned: str,
    exit_code: int,
) -> None:
    """The counts of scans are made up: small tables are always scanned."""
    execute = measuring.execute

    def execute_or_count(postgres: Any, statement: str) -> int:
        return next(numbers) if statement == bench_links.SCANS else execute(postgres, statement)

    monkeypatch.setattr(measuring, "execute", execute_or_count)
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(bench_links, "ROUNDS", 1)
    if exit_code:  # the other case requests all pages
        pages = {title: bench_links.PAGES[title] for title in (scanned, "the list")}
        monkeypatch.setattr(bench_links, "PAGES", pages)
    # Of each page: before it and after it.
    numbers = iter([title == scanned and when for title in bench_links.PAGES for when in (0, 1)])
    monkeypatch.setattr(bench_links, "LINKS", 1_000)
    monkeypatch.setattr(bench_links, "LINK_DAYS", 2_000)
    assert bench_links.main() == exit_code
    output, errors = capsys.readouterr()
    rows = re.findall(r"^\| (.+?) +\| +(\S+) +\| +(yes|no) +\|$", output, re.MULTILINE)
    assert {title: yes for title, _, yes in rows} == {
        title: "yes" if title == scanned else "no" for title in bench_links.PAGES
    }
    assert re.search(r"^([1-9][\d,]+) hits, \1 visits$", errors, re.MULTILINE)


@needs_wrk
@pytest.mark.usefixtures("here")
def test_a_profile_divides_the_time_of_a_redirect(postgres: OwnPostgres) -> None:
    measuring.execute(postgres, measuring.FILL.format(first=1, last=1))
    table = profiling.profile(postgres, {"one key": measuring.ONE_KEY}, seconds=1)
    rows = re.findall(r"^\| (.+?) +\| +([\d.]+) \|$", table, re.MULTILINE)
    *parts, (_, total) = [(name, float(number)) for name, number in rows]
    assert [name for name, _ in parts] == [*profiling.PARTS, profiling.REST]
    assert dict(parts)[profiling.REST] < total
    assert sum(number for _, number in parts) == pytest.approx(total, abs=1.5)


def test_a_profile_has_no_sample_of_the_seconds_before(
    postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of two measurements loads the modules."""
    samples = iter(["importlib.load\n" * 9, "gunicorn.loop\n"])
    settings: dict[str, str] = {}

    def serve(_: str, **variables: str) -> Any:
        settings.update(variables)
        return nullcontext()

    def measure(*_: object) -> Any:
        with Path(settings["PROFILE_FILE"]).open("a") as file:
            file.write(next(samples))
        return SimpleNamespace(microseconds={"service": 50.0})

    monkeypatch.setattr(profiling, "serving", serve)
    monkeypatch.setattr(measuring, "measure", measure)
    table = profiling.profile(postgres, {"one key": ""}, seconds=1)
    assert re.search(r"^\| event loop, between the functions +\| +50\.0 \|$", table, re.MULTILINE)
