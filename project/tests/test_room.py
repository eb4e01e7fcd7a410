"""A room without a network: what the archive of `make room` holds, and that it needs no more."""

import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from project import room

SOLUTION = "lab.workshop.solutions.resolve:resolve"
NOWHERE = "http://127.0.0.1:9/"
UNREACHABLE = {"PIP_INDEX_URL": NOWHERE, "http_proxy": NOWHERE, "https_proxy": NOWHERE}


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """An archive with no wheels but what says for which machines they are, unpacked."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / room.MADE_FOR).write_text(room.kind())
    room.pack(wheels, tmp_path / "room.tar")
    with tarfile.open(tmp_path / "room.tar") as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path / room.FOLDER


def make(folder: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)} | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_it_has_the_checkout_and_installs_from_its_wheels_only(unpacked: Path) -> None:
    assert {"Makefile", "manage.py", "WORKSHOP.md"} <= {each.name for each in unpacked.iterdir()}
    assert not (unpacked / ".venv").exists()
    commands = make(unpacked, "--dry-run", "run").stdout.splitlines()
    installing = [line for line in commands if " install " in line]
    assert len(installing) == 2
    assert all("--no-index" in line for line in installing)
    assert "--find-links wheels --require-hashes" in installing[0]


def test_another_kind_of_machine_is_told_so(unpacked: Path) -> None:
    (unpacked / "wheels" / room.MADE_FOR).write_text("Python 2.7 vax")
    ended = make(unpacked, "run")
    assert ended.returncode
    assert "The wheels are for Python 2.7 vax, and this is Python 3." in ended.stderr


@pytest.mark.exhaustive
def test_it_judges_where_no_registry_can_be_reached(tmp_path: Path) -> None:
    made = make(room.ROOT, "room", **os.environ)
    assert made.returncode == 0, made.stderr
    with tarfile.open(room.ARCHIVE) as tar:
        tar.extractall(tmp_path, filter="data")
    there = tmp_path / room.FOLDER
    installed = make(there, ".venv/installed-to-load", **UNREACHABLE)
    assert installed.returncode == 0, installed.stderr
    assert (there / ".venv" / "bin" / "locust").exists()
    judged = subprocess.run(
        [".venv/bin/python", "manage.py", "race", "check", "lost_update", SOLUTION],
        cwd=there,
        env={"PATH": os.environ["PATH"], "HOME": str(there), "SHORTURL_LOCAL": "on"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "holds. 0 of 14" in judged.stdout, judged.stderr
