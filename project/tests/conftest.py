"""A copy of the project to start in other ways than the checkout's .env says."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from project.tests.dockerfile import ROOT, arguments_of

TIMEOUT = 120  # seconds

# What `.env.example` leaves open, filled in. Nothing connects to this database.
FILLED_IN = {
    "SECRET_KEY": "0123456789 0123456789 0123456789 0123456789 0123456789",
    "ALLOWED_HOSTS": "example.com",
    "DATABASE_URL": "postgres:///unused",
    "POSTGRES_PASSWORD": "unused",
}
PRODUCTION = {name: value for name, value in FILLED_IN.items() if name != "POSTGRES_PASSWORD"}

Ended: TypeAlias = "subprocess.CompletedProcess[str]"
Run = Callable[..., Ended]


@pytest.fixture(scope="session")
def project_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with manage.py and the packages of a local run, and no .env."""
    copy = tmp_path_factory.mktemp("copy")
    shutil.copy(ROOT / "manage.py", copy)
    for name in ("project", "shorturl", "lab", "embedded_postgres"):
        shutil.copytree(
            ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "tests")
        )
    return copy


def run_in(directory: Path, *arguments: str, **environment: str) -> Ended:
    """Run Python in `directory` with that environment and no other; return how it ended."""
    return subprocess.run(
        [sys.executable, *arguments],
        check=False,
        cwd=directory,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


@pytest.fixture
def run(project_copy: Path) -> Run:
    """Return a function that runs Python in the copy: run("manage.py", "check", DEBUG="on")."""

    def run(*arguments: str, **environment: str) -> Ended:
        return run_in(project_copy, *arguments, **environment)

    return run


@pytest.fixture(scope="session")
def production_copy(project_copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return another copy, with .env.example filled in as .env and the static files collected."""
    copy = tmp_path_factory.mktemp("production") / "copy"
    # As the image has it: without what only a local run needs.
    shutil.copytree(project_copy, copy, ignore=shutil.ignore_patterns("lab", "embedded_postgres"))
    text = (ROOT / ".env.example").read_text()
    for name, value in FILLED_IN.items():
        assert f"\n{name}=\n" in text
        text = text.replace(f"\n{name}=\n", f"\n{name}={value}\n")
    # A production has no brotli. Locust brings it, and WhiteNoise would compress for half a minute.
    (copy / "brotli.py").write_text("raise ImportError")
    # Before there is an .env, as in the build of the image.
    (command,) = (line for line in arguments_of("build", "RUN") if "collectstatic" in line)
    subprocess.run(
        ["sh", "-c", command.replace("/venv/bin/python", sys.executable)],
        check=True,
        cwd=copy,
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        timeout=TIMEOUT,
    )
    (copy / ".env").write_text(text)
    return copy
