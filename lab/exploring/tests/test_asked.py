"""Explorations that are asked for: one row and one process, however many ask."""

import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from django.db.models.functions import Now

from lab.exploring import asked, source
from lab.exploring.jobs import jobs_named
from lab.models import Exploration
from pginterleave import Outcome, explore
from shorturl.models import QuotaUsage

(JOB,) = jobs_named("lost_update/naive")
(OTHER,) = jobs_named("toctou/naive")


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("network", ["", "a"])
def test_all_who_ask_get_the_same_one(network: str) -> None:
    """It replaces one of an older source, and a complete one is never removed."""

    def setup() -> None:
        Exploration.objects.all().delete()
        QuotaUsage.objects.all().delete()
        Exploration.objects.create(**JOB.where(), digest="of what was before")

    def ask() -> int:
        row = asked.asked_for(JOB, network)
        Exploration.objects.filter(pk=row.pk).update(summary={"by": row.pk})
        return row.pk

    def one(outcomes: list[Outcome]) -> str:
        row = Exploration.objects.get()
        found = {outcome.returned for outcome in outcomes}
        return "" if found == {row.pk} and row.summary == {"by": row.pk} else f"{found}"

    explore([ask, ask], setup=setup, invariant=one).assert_safe()


@pytest.mark.django_db
def test_a_network_may_ask_for_some_in_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "MOST", 2)
    (third,) = jobs_named("toctou/on_conflict")
    for job in (JOB, JOB, OTHER):  # the second time it is there already
        assert not asked.asked_for(job, "a").problem
    assert asked.asked_for(third, "a").problem == asked.REFUSED
    assert Exploration.objects.count() == 2
    assert not asked.asked_for(third, "b").problem
    Exploration.objects.all().delete()
    assert not asked.asked_for(JOB).problem


@pytest.mark.django_db
def test_one_process_at_a_time_is_started(
    monkeypatch: pytest.MonkeyPatch, another_exploration: None
) -> None:
    popen = Mock()
    popen.return_value.communicate.return_value = (None, "")
    popen.return_value.poll.return_value = None
    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(asked, "_process", None)
    row, other = asked.asked_for(JOB), asked.asked_for(OTHER)
    asked.start(row)
    popen.assert_not_called()  # another process explores
    monkeypatch.setattr(asked, "is_locked", lambda _: False)
    asked.start(row)
    popen.assert_not_called()  # another worker has been asked just before
    asked.start(other)
    popen.assert_called_once()
    assert popen.call_args.args[0][2] == "explore"
    Exploration.objects.update(asked_at=Now() - 2 * asked.STARTING)
    asked.start(row)
    popen.assert_called_once()  # the first one has not taken the lock yet
    popen.return_value.poll.return_value = -9
    asked.start(other)
    assert popen.call_count == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("sys.exit('Traceback …\\nCommandError: No database.')", "No database."),
        ("sys.exit(1)", "manage.py explore has failed."),
        ("sys.exit(143)", ""),  # it was ended, and the next one begins again
        ("sys.exit(0)", ""),
    ],
)
def test_a_process_that_cannot_begin_says_why(program: str, problem: str) -> None:
    row = asked.asked_for(JOB)
    command = [sys.executable, "-c", f"import sys; {program}"]
    asked.note_failure(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
    row.refresh_from_db()
    assert row.problem == problem


def test_what_decides_a_result_is_in_the_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The strategy, the races, the service without its tests, and the explorer's version."""
    monkeypatch.setattr(source, "BASE", tmp_path)
    found = [source.digest(JOB.strategy), source.digest(OTHER.strategy)]
    for path, is_told in [
        ("lab/races/a.py", True),
        ("shorturl/a.py", True),
        ("shorturl/tests/a.py", False),
    ]:
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("")
        (tmp_path / path).write_text("changed = True")
        found += [source.digest(JOB.strategy)] if is_told else []
        assert source.digest(JOB.strategy) == found[-1]
    monkeypatch.setattr(source, "version", lambda _: "of tomorrow")
    found.append(source.digest(JOB.strategy))
    assert len(set(found)) == len(found) == 5
