"""What tests of the lab share: the recordings, the pages and the command."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.test import Client

from lab.management.commands import race as command
from lab.recordings.cells import find_cell
from lab.recordings.recording import RecordedSchedule, Recording, read_recording
from pginterleave import Outcome
from shorturl.tests.callers import without_tags

TIMEOUT = 60  # seconds that one thread waits for the others, far more than they take
NAIVE_PATH = "/lab/races/lost_update/naive/2/"
RIGHT_PATH = "/lab/races/lost_update/update_returning/2/"


def run_in_threads(
    functions: Sequence[Callable[[], object]], level: str = "read committed"
) -> list[Outcome]:
    """Run each function in a thread with a connection of its own; all begin at the same time."""
    start = threading.Barrier(len(functions))

    def run(function: Callable[[], object]) -> Outcome:
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SET default_transaction_isolation = '{level}'")
            start.wait(TIMEOUT)
            return Outcome(returned=function())
        except Exception as error:
            return Outcome(raised=error)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(functions)) as pool:
        return [*pool.map(run, functions)]


def read_recorded(cell: str) -> Recording:
    """Return the recording of a cell: race/strategy[/processes[/level]]."""
    return read_recording(find_cell(*cell.split("/")))


def list_schedules(recording: Recording) -> list[RecordedSchedule]:
    return [recording.schedule(number) for number in range(len(recording.schedules))]


def find_schedule(recording: Recording, order: str) -> RecordedSchedule:
    return next(schedule for schedule in list_schedules(recording) if schedule.order == order)


def get_page(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, path
    assert "no-store" in response["Cache-Control"]
    return " ".join(response.content.decode().split())


def get_text(client: Client, path: str) -> str:
    """Return the text of a page without its tags."""
    return without_tags(get_page(client, path))


def run_race(*arguments: str) -> str:
    output = StringIO()
    call_command("race", *arguments, stdout=output, stderr=StringIO())
    return output.getvalue()


@pytest.fixture
def in_this_database(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command explore in the database of the tests, which saves making another one."""
    monkeypatch.setattr(command, "temporary_database", nullcontext)
