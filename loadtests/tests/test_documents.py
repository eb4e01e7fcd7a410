"""The example of docs/load-tests.md finds the lost purchases of its shop."""

import json
import re
import subprocess
import sys
from pathlib import Path

from loadtests.servers import ROOT, stop, wait_until
from loadtests.tests.conftest import TIMEOUT, free_port, get_json, run


def test_the_example_finds_lost_purchases(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "load-tests.md").read_text()
    shop, script = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    (tmp_path / "shop.py").write_text(shop)
    (tmp_path / "shop_load.py").write_text(script)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "flask", "--app", "shop", "run", "--port", port]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        try:
            problem = "the shop does not start"
            wait_until(lambda: get_json(f"{url}/sold") is not None, problem, TIMEOUT)
            options = ["--headless", "--only-summary", "--host", url, "--run-time", "3s"]
            file = tmp_path / "ledger"
            locust = ["locust", "-f", str(tmp_path / "shop_load.py"), "--ledger-file", str(file)]
            ended = run(*locust, *options)
        finally:
            stop(process)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert json.loads(file.read_text())["lost"] > 0
    ended = run(*locust, *options)  # the shop has stopped
    assert ended.returncode == 2
    assert f"no service for this test answers at {url}: start it" in ended.stdout
    assert "Traceback" not in ended.stderr
