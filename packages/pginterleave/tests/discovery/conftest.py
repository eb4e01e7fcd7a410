"""Runs the small suite in a process of its own, with a test database of its own."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

SUITE = Path(__file__).parent / "suite"
collect_ignore = ["suite"]


@dataclass
class Ran:
    """How a run of the suite has ended."""

    status: int
    text: str
    results: dict[str, Any]  # Discovery.to_json()

    @property
    def races(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The races, by the names and the kind."""
        return {(_join(race["names"]), race["kind"]): race for race in self.results["races"]}

    @property
    def explored(self) -> dict[str, dict[str, Any]]:
        """What was explored, by the names."""
        return {_join(entry["names"]): entry for entry in self.results["explored"]}

    @property
    def left(self) -> set[tuple[str, str, str]]:
        """What was not explored: the test, the name, the reason."""
        return {
            (entry["tests"][0].rpartition("::")[2], entry["names"][0], entry["reason"])
            for entry in self.results["left"]
        }

    @property
    def outcomes(self) -> dict[str, str]:
        """The outcome of each test, as -rA writes them."""
        lines = re.findall(r"^(PASSED|FAILED|ERROR) (\S+)", self.text, re.MULTILINE)
        return {test: outcome for outcome, test in lines}


def _join(names: list[str]) -> str:
    return " + ".join(dict.fromkeys(name.removeprefix("POST ") for name in names))


RunSuite = Callable[..., Ran]


@pytest.fixture(scope="module")
def run_suite(
    tmp_path_factory: pytest.TempPathFactory, django_db_setup: None, django_db_blocker: Any
) -> RunSuite:
    """Return a function that runs the suite with options of pytest, and lines of its pytest.ini."""
    with django_db_blocker.unblock():
        parameters = connection.get_connection_params()
    names = {"host": "HOST", "port": "PORT", "user": "USER", "password": "PASSWORD"}
    given = {names[key]: str(parameters[key]) for key in names if parameters.get(key)}

    def run(*options: str, ini: str = "", tests: str = "", databases: str = "") -> Ran:
        folder = tmp_path_factory.mktemp("suite")
        shutil.copytree(SUITE, folder, dirs_exist_ok=True)
        if tests:
            (folder / "shop" / "tests.py").write_text(tests)
        (folder / "pytest.ini").write_text(f"[pytest]\npython_files = tests.py\n{ini}")
        database = {"ENGINE": "django.db.backends.postgresql", "NAME": folder.name, **given}
        database["TEST"] = {"NAME": f"test_{os.getpid()}_{folder.name}"}  # type: ignore[assignment]
        environment = {
            "DJANGO_SETTINGS_MODULE": "settings",
            "PYTHONPATH": str(folder),
            "SUITE_DATABASES": databases or json.dumps({"default": database}),
            "SUITE_RESULTS": str(folder / "results.json"),
            "SUITE_MEDIA": str(folder / "media"),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:randomly", *options]
        ran = subprocess.run(
            command,
            cwd=folder,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        results = folder / "results.json"
        data = json.loads(results.read_text()) if results.exists() else {}
        return Ran(ran.returncode, ran.stdout + ran.stderr, data)

    return run
