"""The example of docs/load-tests.md, and what its reader may get wrong in a script."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadtests.servers import ROOT, stop, wait_until
from loadtests.tests.conftest import TIMEOUT, free_port, run

SHOP, SCRIPT = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "docs/load-tests.md").read_text(), re.DOTALL | re.MULTILINE
)
MISTAKES = {  # what is replaced in the script, and the problem that it prints
    "no reconcile": ("@ledger.reconcile\n", "", "decorator @ledger.reconcile"),
    "prepare fails": ('"PUT", f"', '{}["stock"], f"', "'stock' (KeyError in script.py, line "),
    "prepare is refused": ('"PUT"', '"PATCH"', "405 Client Error"),
    "no report": ('/sold"', '/report"', "404 Client Error: NOT FOUND for url: http://"),
    "no sent": ("ledger.sent[item] += 1", "pass", "more acknowledged than sent"),
}
AFTER_THE_LOAD = {"no report", "no sent"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the shop."""
    directory = tmp_path_factory.mktemp("shop")
    (directory / "shop.py").write_text(SHOP)
    port = free_port()
    command = [sys.executable, "-m", "flask", "--app", "shop", "run", "--port", port]
    log = directory / "log"
    with log.open("w") as file, subprocess.Popen(command, cwd=directory, stderr=file) as process:
        try:
            wait_until(lambda: "Running on" in log.read_text(), "no shop", TIMEOUT)
            yield f"http://127.0.0.1:{port}"
        finally:
            stop(process)


def run_example(
    script: str, directory: Path, host: str, *options: str
) -> "subprocess.CompletedProcess[str]":
    """Run a script for two seconds. Its ledger writes the file `result` into the directory."""
    file = directory / "script.py"
    file.write_text(script)
    result = ["--ledger-file", str(directory / "result")]
    locust = ["locust", "-f", str(file), "--headless", "--only-summary", "--run-time", "2s"]
    return run(*locust, "--host", host, *result, *options)


@pytest.mark.parametrize("processes", [1, 2])
def test_the_example_finds_lost_purchases(shop: str, tmp_path: Path, processes: int) -> None:
    port = free_port()
    workers = ["--processes", str(processes), "--master-bind-port", port, "--master-port", port]
    ended = run_example(SCRIPT, tmp_path, shop, *workers if processes > 1 else ())
    assert ended.returncode == 1, ended.stdout + ended.stderr
    result = json.loads((tmp_path / "result").read_text())
    assert result["lost"] > 0
    # The key that lost, and how to find the line.
    assert f"{result['lost']:,} of {result['run_name']}" in ended.stdout
    assert "POST /items/ITEM/buy: pytest --interleave-requests" in ended.stdout


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_script_is_named(shop: str, tmp_path: Path, mistake: str) -> None:
    right, wrong, problem = MISTAKES[mistake]
    assert right in SCRIPT
    ended = run_example(SCRIPT.replace(right, wrong), tmp_path, shop)
    assert ended.returncode == 2
    assert problem in ended.stdout
    assert "Traceback" not in ended.stderr
    assert ("All users spawned" in ended.stderr) is (mistake in AFTER_THE_LOAD)


def test_without_a_service_no_load_begins(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    ended = run_example(SCRIPT, tmp_path, url)
    assert ended.returncode == 2
    assert f"no service answers at {url}: start it" in ended.stdout
    assert "Traceback" not in ended.stderr
    assert "All users spawned" not in ended.stderr
