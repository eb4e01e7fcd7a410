"""What tests of the lab share: recordings that are explored once, and stored on demand."""

import os
import pickle
import random
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import DEFAULT_DB_ALIAS, OperationalError, connection
from django.test import Client

from embedded_postgres import locks
from lab.models import RecordedSchedule, Recording
from lab.recording import batches, store
from lab.recording.jobs import jobs_named
from lab.scratch_database import scratch_database

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
    """A recording outside of the tables, which every test leaves empty."""

    def __init__(self, recording: Recording) -> None:
        self.recording = Recording.objects.using(store.SERVICE).get(pk=recording.pk)
        self.schedules = list(self.recording.recorded.all())

    def numbered(self, number: int) -> "Kept":
        """Give it unique ids: each process's database counted from 1."""
        self.recording.pk = number
        for position, each in enumerate(self.schedules):
            each.pk, each.recording_id = number * store.MAX_SCHEDULES + position, number
        for kept in (self.recording, *self.schedules):
            kept._state.db = DEFAULT_DB_ALIAS
        return self

    def schedule(self, order: str) -> RecordedSchedule:
        return next(each for each in self.schedules if each.order == order)

    def first(self, statements: str, *, violating: bool = True) -> RecordedSchedule:
        """Return the first schedule with these statements, as in `1S 2S 1U 2U`.

        A statement is its process and the first letter of its kind. COMMIT and ROLLBACK are left
        out, so it does not matter whether a single statement's COMMIT is a step.
        """
        return next(
            each
            for each in self.schedules
            if sent(each) == statements and bool(each.violation) is violating
        )


def sent(schedule: RecordedSchedule) -> str:
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
    """The recordings of WHAT; the processes of pytest-xdist share the work."""
    directory = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        directory = directory.parent
    files = {what: directory / what.replace("/", " ") for what in WHAT}
    missing = [what for what, file in files.items() if not file.exists()]
    if missing:
        random.shuffle(missing)
        with django_db_blocker.unblock(), store.service_connection(), scratch_database():
            for what in missing:
                explore(what, files[what])
    return {
        what: pickle.loads(file.read_bytes()).numbered(number)  # noqa: S301 - written here
        for number, (what, file) in enumerate(files.items(), start=1)
    }


def explore(what: str, file: Path) -> None:
    with locks.exclusive(file.with_suffix(".lock"), timeout=600):
        if not file.exists():
            part = file.with_suffix(".part")
            part.write_bytes(pickle.dumps(Kept(store.record(jobs_named(what)[0]))))
            part.rename(file)
            Recording.objects.using(store.SERVICE).all().delete()


@pytest.fixture
def recorded(db: None, explored: dict[str, Kept]) -> dict[str, Kept]:
    Recording.objects.bulk_create(each.recording for each in explored.values())
    RecordedSchedule.objects.bulk_create(
        schedule for each in explored.values() for schedule in each.schedules
    )
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(
            no_style(), [Recording, RecordedSchedule]
        ):
            cursor.execute(statement)
    return explored


@pytest.fixture
def another_exploration(db: None) -> Iterator[None]:
    other = connection.copy("other")
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [batches.LOCK])
            yield
            # Closing the session releases it a moment later, and the next test may ask before.
            with suppress(OperationalError):  # a test may have ended the session
                cursor.execute("SELECT pg_advisory_unlock(%s)", [batches.LOCK])
    finally:
        other.close()
