"""The scripts against a real service, in one process and in several, and the web UI."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from loadtests import races
from loadtests.races import plan_runs
from loadtests.servers import ROOT, RunningService, stop, wait_until
from loadtests.tests.conftest import TIMEOUT, free_port, get_json, run, run_script

LOCUST = [sys.executable, "-m", "locust", "-f", "loadtests/lost_update.py"]


@pytest.mark.parametrize(
    ("script", "wrong", "right"),
    [
        ("lost_update", "naive", "update_returning"),
        ("toctou", "check_first", "on_conflict"),
        ("last_use", "naive", "service"),
        ("last_link", "count_then_insert", "reservation"),
        ("same_target", "find_then_create", "advisory_lock"),
        ("repeated_request", "look_up_then_store", "advisory_lock"),
        ("same_hour", "get_then_create", "service"),
    ],
)
def test_a_wrong_strategy_is_violated_and_a_right_one_holds(
    service: RunningService, tmp_path: Path, script: str, wrong: str, right: str
) -> None:
    port = free_port()
    processes = ["--processes", "2", "--master-bind-port", port, "--master-port", port]
    for options, exit_code in (([wrong, *processes], 1), ([right], 0)):
        result = run_script(script, service.url, tmp_path / "ledger", "--strategy", *options)
        assert result["exit_code"] == exit_code, result


def test_a_master_adds_up_all_that_its_workers_were_told(
    service: RunningService, tmp_path: Path
) -> None:
    port, file = free_port(), tmp_path / "ledger"
    command = [*LOCUST, "--worker", "--master-port", port]
    workers = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) for _ in range(2)]
    master = ["--master", "--expect-workers", "2", "--master-bind-port", port]
    result = run_script("lost_update", service.url, file, *master, "--strategy", "service")
    for worker in workers:
        worker.wait(TIMEOUT)
    assert (result["exit_code"], result["unknown"]) == (0, 0)
    assert result["of"] > 0


def test_an_interrupted_run_has_a_result(service: RunningService, tmp_path: Path) -> None:
    file, log = tmp_path / "ledger", tmp_path / "log"
    options = ["--headless", "--host", service.url, "--run-time", "60s", "--ledger-file", str(file)]
    with (
        log.open("w") as output,
        subprocess.Popen([*LOCUST, *options], cwd=ROOT, stderr=output) as process,
    ):
        wait_until(lambda: "All users spawned" in log.read_text(), "no users", TIMEOUT)
        stop(process)
    assert process.returncode == json.loads(file.read_text())["exit_code"]


def test_the_links_of_a_run_are_removed(service: RunningService, tmp_path: Path) -> None:
    result = run_script("toctou", service.url, tmp_path / "ledger")
    assert min(result["of"], result["per_second"]) > 0
    space = f"lab-{result['run_name'][-5:]}"  # the keys of the run begin with it
    assert get_json(f"{service.url}/lab/load/{space}")["links"] == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--strategy", "nope"], "there is no strategy 'nope'; there are service, naive, "),
        (["--host", "http://127.0.0.1:1"], "no service answers at http://127.0.0.1:1: start it"),
        (["--host", "HOST/nothing"], "404 Client Error: Not Found for url: "),
    ],
)
def test_a_run_that_cannot_begin_says_why(
    service: RunningService, tmp_path: Path, options: list[str], problem: str
) -> None:
    given = [option.replace("HOST", service.url) for option in options]
    result = run_script("lost_update", service.url, tmp_path / "ledger", *given)
    assert result["exit_code"] == 2
    assert problem in result["outcome"]


def test_races_and_faults_refuse_an_unknown_name(service: RunningService) -> None:
    with pytest.raises(SystemExit, match=r"strategy 'nope'; there are toctou, .*, naive, "):
        plan_runs(service, ["naive", "nope"])
    ended = run("loadtests.faults", "kill_worker", "nope")
    assert ended.returncode == 2
    assert "there is no fault 'nope'; there are " in ended.stderr


def test_races_runs_the_chosen_strategies_and_kills_workers_of_those_that_a_crash_breaks(
    service: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [(run["script"], run["strategy"]) for run in plan_runs(service, None)]
    served = [script for script, strategy in names if strategy == "service"]
    assert served == ["lost_update", "last_use", "same_hour"]
    naive = [run["script"] for run in plan_runs(service, ["naive"])]
    assert naive == ["toctou", "lost_update", "last_use"]
    runs = {run["strategy"]: run for run in plan_runs(service, ["lost_update"])}
    assert {run["script"] for run in runs.values()} == {"lost_update"}
    assert (runs["service"]["verdict"], runs["naive"]["verdict"]) == ("right", "wrong")
    monkeypatch.setattr(races, "REPORTS", tmp_path)
    monkeypatch.setattr(races, "MIN_CRASH_SECONDS", 3)
    for strategy, is_killed in (("naive", False), ("in_memory", True)):
        worker = Mock()
        users = SimpleNamespace(url=service.url, workers=[worker])
        result: Any = races.measure(runs[strategy], users, 2)  # type: ignore[arg-type]
        assert worker.kill.called is is_killed
        assert result["exit_code"] == (0 if is_killed else 1)  # nothing was killed in truth
        assert result["as_expected"] is not is_killed
        assert result["share"] == result["lost"] / result["of"]
        log = (tmp_path / f"lost_update-{strategy}.txt").read_text()
        assert f"Run time limit set to {3 if is_killed else 2} seconds" in log
        assert '"Follower": 16' in log


# CI and `make faults` run whole faults, each with a service of its own.
ONE_KILL = """
import sys
from types import SimpleNamespace
from loadtests.faults import __main__ as faults, injected
from loadtests.servers import RunningService
injected.KILLS = 1
service = RunningService(sys.argv[1], SimpleNamespace(pid=int(sys.argv[2])))
result, figures = faults.measure("kill_worker", service, None)
print(faults.describe("kill_worker", result, figures))
assert min(map(len, (result.records.acknowledged, result.verdict.counted))) > 0
sys.exit(faults.has_failed(result, figures, counts_only=True))
"""


def test_a_killed_worker_loses_nothing(service: RunningService) -> None:
    command = [sys.executable, "-c", ONE_KILL, service.url, str(service.process.pid)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_default_host_is_where_make_run_serves(tmp_path: Path) -> None:
    file = tmp_path / "served-at"
    program = (
        "import locust, pathlib; from locust.argument_parser import get_parser\n"
        f"from loadtests import ledger; ledger.SERVED_AT = pathlib.Path({str(file)!r})\n"
        "ledger.Ledger('lost'); options = get_parser().parse_args([])\n"
        "print(options.host, options.web_host, options.master_bind_host)\n"
        "print(options.num_users, options.spawn_rate, options.run_time, options.stop_timeout)"
    )
    for content, host in ((None, "http://127.0.0.1:8000"), ("8123\n", "http://127.0.0.1:8123")):
        if content:  # without it the file is missing
            file.write_text(content)
        ended = subprocess.run(
            [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert ended.stdout.split() == [host, "127.0.0.1", "127.0.0.1", "16", "16", "8", "5"]


def test_the_tab_shows_the_loss_during_a_run_and_keeps_it_after_the_stop(
    service: RunningService,
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    locust = [*LOCUST, "--host", service.url, "--web-port", port]

    def rows() -> dict[str, str]:
        (extended,) = get_json(f"{url}/stats/requests")["extended_stats"]
        return {row["what"]: row["value"] for row in extended["data"]}

    def is_stopped() -> bool:
        return bool(get_json(f"{url}/stats/requests")["state"] == "stopped")

    with subprocess.Popen(locust, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: get_json(f"{url}/stats/requests"), "Locust does not start", TIMEOUT)
            assert rows()["outcome"] == "unknown: no request was acknowledged"
            form = {"user_count": 8, "spawn_rate": 8, "host": service.url, "run_time": "30s"}
            get_json(f"{url}/swarm", {**form, "strategy": "naive"})
            problem = "no loss is shown while the users work"
            wait_until(lambda: rows()["outcome"] == "violated", problem, TIMEOUT)
            command = "manage.py race explore lost_update naive"
            assert rows()["find the line"].endswith(command)
            assert get_json(f"{url}/stop", {})
            wait_until(is_stopped, "the run does not stop", TIMEOUT)
            final = rows()
            assert rows() == final  # asked again: nothing changes after the stop
            assert int(final["counted"].replace(",", "")) < int(final["sent"].replace(",", ""))
        finally:
            stop(process)
