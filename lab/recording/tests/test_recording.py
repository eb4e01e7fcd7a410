"""Recordings, and `manage.py record`, which makes them."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from io import StringIO
from typing import Any
from unittest.mock import Mock

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from lab.conftest import Kept
from lab.exceptions import LabRefusal
from lab.management.commands import record as command
from lab.models import Batch, RecordedSchedule, Recording
from lab.recording import batches, store
from lab.recording.jobs import Job
from lab.scratch_database import scratch_databases
from pginterleave import NotDeterministic
from project.docs import ROOT
from shorturl.models import ShortUrl

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def any_alias(transactional_db: None, django_db_blocker: Any) -> Iterator[None]:
    """Allow any alias of a connection, which Django's test cases forbid."""
    with django_db_blocker.unblock():
        yield


def record(*what: str) -> str:
    output = StringIO()
    call_command("record", *what, stdout=output, stderr=StringIO())
    return output.getvalue()


def test_every_schedule_is_kept_and_counted(explored: dict[str, Kept]) -> None:
    counts = {}
    for what, kept in explored.items():
        recording = kept.recording
        counts[what] = (recording.violating, recording.schedules, recording.refused)
        assert [each.number for each in kept.schedules] == list(range(recording.schedules))
        assert sum(bool(each.violation) for each in kept.schedules) == recording.violating
        for schedule in kept.schedules:
            taken = "".join(str(step["process"]) for step in schedule.steps)
            assert (
                re.sub("[a-z]", "", schedule.order) == taken
            )  # a letter: the process that a deadlock ended
            assert len(schedule.outcomes) == recording.processes
    assert counts["lost_update/naive"] == (12, 14, 0)
    assert counts["toctou/check_first"] == (12, 14, 12)
    assert explored["lost_update/update_returning"].recording.counterexample == ""
    recording = explored["lost_update/naive"].recording
    assert (recording.counterexample, recording.truncated) == ("122211", "")
    assert recording.seconds > 0
    assert recording.postgresql.startswith("PostgreSQL ")


def test_a_step_has_the_statement_its_result_and_the_rows(
    explored: dict[str, Kept],
) -> None:
    read, _, write, commit, *_ = explored["lost_update/naive"].schedule("121122").steps
    assert (read["kind"], read["process"], read["rows"]) == ("SELECT", 1, 1)
    assert (read["until"], read["waited_for"], read["error"], read["message"]) == (1, [], "", "")
    assert read["sql"].startswith("SELECT … FROM shorturl_shorturl WHERE (deleted_at IS NULL AND ")
    observed = [each["observed"] for each in (read, write, commit)]
    assert observed == ["hits = 0", "hits = 0", "hits = 1"]
    lines = (ROOT / "shorturl" / "strategies" / "resolving" / "naive.py").read_text().splitlines()
    assert "get(" in lines[read["line"] - 1]
    assert write["where"] == f"shorturl/strategies/resolving/naive.py:{write['line']}"

    waits = explored["lost_update/select_for_update"].schedule("121122").steps[1]
    assert (waits["waited_for"], waits["until"]) == ([1], 4)  # process 1 commits

    schedule = explored["toctou/check_first"].schedule("12112")
    assert schedule.steps[4]["error"]
    assert "shorturl_shorturl_key_uk" in schedule.steps[4]["message"]
    assert schedule.outcomes[0] == ""
    assert schedule.outcomes[1].startswith("IntegrityError: duplicate key value")


def test_a_newer_recording_replaces_the_older(recorded: dict[str, Kept]) -> None:
    older = recorded["lost_update/update_returning"].recording
    others = Recording.objects.exclude(pk=older.pk)
    before = set(others.values_list("pk", flat=True))
    ShortUrl.objects.create(key="a", target_url="https://example.com/")

    what = "lost_update/update_returning/2/read-committed"
    assert record(what) == f"{what}: 0 of 4 schedules violate the invariant\n"

    newer = Recording.objects.get(race="lost_update", strategy="update_returning")
    assert newer.pk > older.pk
    assert newer.recorded_at > older.recorded_at
    assert not RecordedSchedule.objects.filter(recording_id=older.pk).exists()
    assert newer.recorded.count() == 4
    assert set(Recording.objects.exclude(pk=newer.pk).values_list("pk", flat=True)) == before
    assert ShortUrl.objects.get().hits == 0  # the races ran in a scratch database
    batch = Batch.objects.get()
    assert (batch.what, batch.total, batch.done, batch.problem) == (what, 1, 1, "")
    assert batch.ended_at
    assert scratch_databases(connection) == []


def test_the_processes_have_the_isolation_level_of_the_job() -> None:
    """A row lock waits at the default level; at a stricter one, the waiting process gets an error.

    The default level is explored last, because a level must not remain for the next job.
    """
    job = "lost_update/select_for_update/2/"
    assert record(f"{job}serializable", f"{job}read-committed").splitlines() == [
        f"{job}serializable: 4 of 6 schedules violate the invariant",
        f"{job}read-committed: 0 of 6 schedules violate the invariant",
    ]
    kept = Recording.objects.get(isolation="serializable")
    assert kept.refused == kept.violating


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "scratch_database", nullcontext)
    monkeypatch.setattr(store, "MAX_SCHEDULES", 1)
    record("lost_update/update_returning")
    kept = Recording.objects.get()
    assert (kept.schedules, kept.truncated) == (1, "max_schedules=1 reached")


def test_an_unknown_group_is_refused() -> None:
    with pytest.raises(CommandError, match="there are all, workshop, queue, matrix, museum"):
        record("")
    assert not Batch.objects.exists()


def test_only_one_at_a_time(another_exploration: None) -> None:
    """Two batches that begin at the same moment both have a page; one page says the refusal."""
    message = "Another exploration is running; wait for it to end."
    with pytest.raises(CommandError, match=message):
        record("lost_update/naive")
    assert not Batch.objects.exists()
    batch = Batch.objects.create(what="lost_update/naive", total=1)
    with pytest.raises(CommandError, match=message):
        record("lost_update/naive", f"--batch={batch.pk}")
    batch.refresh_from_db()
    assert batch.problem == message
    assert batch.ended_at


def test_what_is_missing_waits_for_another_exploration(
    monkeypatch: pytest.MonkeyPatch, another_exploration: None
) -> None:
    """As when `make workshop` is run while the service explores everything after its start."""
    monkeypatch.setattr(command, "PATIENCE", 0.05)
    with pytest.raises(CommandError, match="Another exploration is running"):
        record("lost_update/naive", "--missing")

    def ended(using: str, seconds: float) -> bool:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database ON oid = database"
                " WHERE objid = %s AND locktype = 'advisory' AND datname = current_database()",
                [batches.LOCK],
            )
        return wait_for_lock(using, 60)

    wait_for_lock = batches.wait_for_lock
    monkeypatch.setattr(batches, "wait_for_lock", ended)
    monkeypatch.setattr(store, "record", Mock())
    assert "waiting for it to end" in record("lost_update/naive", "--missing")


# The end of a batch does not depend on what it explores, so these tests explore nothing.


@pytest.fixture
def locked_at_the_end(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the lock was still held at the end, before the session is closed."""
    locked: list[bool] = []
    service_connection = store.service_connection

    @contextmanager
    def watched() -> Iterator[None]:
        with service_connection():
            try:
                yield
            finally:
                locked.append(batches.is_locked())

    monkeypatch.setattr(store, "service_connection", watched)
    monkeypatch.setattr(command, "scratch_database", nullcontext)
    return locked


def test_progress_is_stored_during_the_exploration(
    monkeypatch: pytest.MonkeyPatch, locked_at_the_end: list[bool]
) -> None:
    monkeypatch.setattr(command, "PROGRESS", 0)
    seen = []

    def explore(job: Job, progress: Callable[[int], object]) -> Recording:
        progress(7)
        batch = Batch.objects.using(store.SERVICE).get()
        seen.append((batch.current, batch.done, batch.total, batch.ended_at))
        assert batches.is_locked()
        return Recording()

    monkeypatch.setattr(store, "record", explore)
    record("lost_update/naive", "toctou/naive")
    assert seen == [
        ("lost_update/naive/2/read-committed: 7 schedules", 0, 2, None),
        ("toctou/naive/2/read-committed: 7 schedules", 1, 2, None),
    ]
    assert Batch.objects.get().what == "2 explorations"
    assert locked_at_the_end == [False]


def test_complete_recordings_can_be_left_out(
    monkeypatch: pytest.MonkeyPatch, recorded: dict[str, Kept], locked_at_the_end: list[bool]
) -> None:
    explore = Mock()
    monkeypatch.setattr(store, "record", explore)
    record("lost_update/naive", "lost_update/naive/3", "--missing")
    assert [str(call.args[0]) for call in explore.mock_calls] == [
        "lost_update/naive/3/read-committed"
    ]
    batch = Batch.objects.get()
    assert (batch.done, batch.total) == (2, 2)


def test_one_that_fails_is_noted_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch, client: Client, locked_at_the_end: list[bool]
) -> None:
    batch = Batch.objects.create(what="all", wanted="toctou/naive/2/read-committed")
    seen = []

    def explore(job: Job, _: Callable[[int], object]) -> Recording:
        seen.append(str(job))
        if job.race.name == "toctou":
            raise NotDeterministic("It differs.")
        return Recording(schedules=6, violating=4)

    monkeypatch.setattr(store, "record", explore)
    reason = "toctou/naive/2/read-committed failed: It differs."
    with pytest.raises(CommandError, match=reason):
        record("lost_update/naive", "toctou/naive", f"--batch={batch.pk}")
    assert seen == ["toctou/naive/2/read-committed", "lost_update/naive/2/read-committed"]
    batch.refresh_from_db()
    assert (batch.problem, batch.done) == (reason, 2)
    assert reason in client.get("/lab/").content.decode()
    page = client.get("/lab/races/toctou/naive/2/").content.decode()
    assert f"Not proven: {reason}" in page
    assert "Explore it again" in page
    assert '<span aria-hidden="true">?</span> not proven' in client.get("/lab/").content.decode()
    with pytest.raises(CommandError):  # a failed one is tried again
        record("toctou/naive", "--missing")
    assert len(seen) == 3


def test_one_that_fails_keeps_its_older_recording(
    monkeypatch: pytest.MonkeyPatch, recorded: dict[str, Kept], locked_at_the_end: list[bool]
) -> None:
    monkeypatch.setattr(store, "record", Mock(side_effect=NotDeterministic("It differs.")))
    with pytest.raises(CommandError, match="It differs"):
        record("toctou/naive")
    older = recorded["toctou/naive"].recording
    assert Recording.objects.get(race="toctou", strategy="naive").schedules == older.schedules


@pytest.mark.parametrize(
    ("error", "raised", "problem"),
    [
        (LabRefusal("No database."), CommandError, "No database."),
        (SystemExit(143), SystemExit, "Interrupted (SystemExit)."),
    ],
)
def test_it_says_why_it_ended_early(
    monkeypatch: pytest.MonkeyPatch,
    locked_at_the_end: list[bool],
    error: BaseException,
    raised: type,
    problem: str,
) -> None:
    monkeypatch.setattr(store, "record", Mock(side_effect=error))
    with pytest.raises(raised):
        record("lost_update/naive")
    batch = Batch.objects.get()
    assert (batch.problem, batch.done) == (problem, 0)
    assert batch.ended_at
    assert locked_at_the_end == [False]
