"""The contents of the bundle of `make bundle`, and its use without a network."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from project.tests.conftest import ROOT

NOWHERE = "http://127.0.0.1:9/"
UNREACHABLE = {"PIP_INDEX_URL": NOWHERE, "http_proxy": NOWHERE, "https_proxy": NOWHERE}


def make(folder: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)} | environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """The files that `make run` reads of a bundle for another kind of machine, without wheels."""
    for name in ("Makefile", "requirements/local.txt", "requirements/parser.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "made-for").write_text("Python 2.7 vax\n")
    return tmp_path


def test_another_kind_of_machine_is_told_so(unpacked: Path) -> None:
    ended = make(unpacked, "run")
    assert ended.returncode
    assert "The wheels are for Python 2.7 vax, and this is Python 3." in ended.stderr
    assert not (unpacked / ".venv").exists()


@pytest.mark.exhaustive
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="`make bundle` archives a Git checkout")
def test_it_judges_an_exercise_without_a_registry(tmp_path: Path) -> None:
    made = make(ROOT, "bundle", **os.environ)
    assert made.returncode == 0, made.stderr
    with tarfile.open(ROOT / ".local" / "shorturl-offline.tar") as tar:
        tar.extractall(tmp_path, filter="data")
    there = tmp_path / "shorturl-offline"
    installed = make(there, ".venv/installed-to-load", **UNREACHABLE)
    assert installed.returncode == 0, installed.stderr
    assert (there / ".venv" / "bin" / "locust").exists()
    judged = subprocess.run(
        [".venv/bin/pytest", "lab/exercises/resolve.py", "-k", "test_processes_at_once"],
        cwd=there,
        env={"PATH": os.environ["PATH"], "HOME": str(there), "SHORTURL_LOCAL": "on"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "hits of a is 1, and 2 is right" in judged.stdout, judged.stderr
    assert (there / "lab" / "recordings" / "lost_update.json.gz").exists()
