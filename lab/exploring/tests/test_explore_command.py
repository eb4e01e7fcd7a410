"""`manage.py explore`: each that was asked for, once, whatever ends it."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from io import StringIO
from math import inf
from typing import Any
from unittest.mock import Mock

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from lab.conftest import NAIVE, Kept, get
from lab.exceptions import LabRefusal
from lab.exploring import asked, explorer
from lab.exploring.explored import Explored
from lab.exploring.jobs import Job, jobs_named
from lab.management.commands import explore as command
from lab.models import Exploration
from lab.scratch_database import is_locked
from shorturl.models import ShortUrl

pytestmark = pytest.mark.django_db(transaction=True)

(JOB,) = jobs_named("lost_update/naive")
(OTHER,) = jobs_named("toctou/naive")
(THIRD,) = jobs_named("toctou/on_conflict")
Run = Callable[[Job, Callable[[int], object]], Explored]


@pytest.fixture(autouse=True)
def any_alias(transactional_db: None, django_db_blocker: Any) -> Iterator[None]:
    """Allow any alias of a connection, which Django's test cases forbid."""
    with django_db_blocker.unblock():
        yield


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, explored: dict[str, Kept]) -> Mock:
    """Return what explores a job; it returns what was explored before."""
    results = {str(kept.explored.job): kept.explored for kept in explored.values()}
    run = Mock(side_effect=lambda job, _: results[str(job)])
    monkeypatch.setattr(explorer, "run", run)
    monkeypatch.setattr(command, "scratch_database", nullcontext)
    return run


def explore(*what: str) -> str:
    output = StringIO()
    call_command("explore", *what, stdout=output)
    return output.getvalue()


def test_it_explores_what_is_missing_and_touches_no_link(client: Client, started: Mock) -> None:
    ShortUrl.objects.create(key="a", target_url="https://example.com/")
    said = "[####################] 1/1 lost_update/naive/2/read-committed: 12 of 14 schedules"
    assert explore("lost_update/naive") == f"{said} violate the invariant\n"
    assert explore("lost_update/naive") == explore() == ""
    assert ShortUrl.objects.get().hits == 0
    assert "Violated: hits = 1, not 2" in get(client, NAIVE)
    started.assert_not_called()


def test_the_page_that_is_waited_for_comes_first_and_each_is_told(run: Mock) -> None:
    for job in (JOB, OTHER):
        asked.asked_for(job)
    Exploration.objects.filter(**OTHER.where()).update(asked_at=timezone.now())
    lines = explore().splitlines()
    assert [line.split("] ")[1].split(":")[0] for line in lines] == [f"1/2 {OTHER}", f"2/2 {JOB}"]
    assert not asked.waiting().exists()


def test_one_that_fails_says_why_and_the_next_one_runs(run: Mock) -> None:
    results = run.side_effect

    def fail(job: Job, note: Callable[[int], object]) -> Explored:
        if job == JOB:
            raise LabRefusal("It differs.")
        return results(job, note)  # type: ignore[no-any-return]

    run.side_effect = fail
    with pytest.raises(CommandError, match="1 failed"):
        explore(str(JOB), str(OTHER))
    assert asked.asked_for(JOB).problem == "LabRefusal: It differs."
    assert asked.asked_for(OTHER).summary
    explore()  # a failed one is not repeated
    run.side_effect = results
    explore(str(JOB))  # unless it is named
    assert asked.asked_for(JOB).summary


@pytest.mark.parametrize("change", ["cancel", "again"])
def test_one_that_is_cancelled_stops(
    client: Client, run: Mock, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """It is cancelled, or asked for again, while its schedules run: its result is not stored."""
    monkeypatch.setattr(command, "PROGRESS", 0)
    results, seen = run.side_effect, []

    def cancelled(job: Job, note: Callable[[int], object]) -> Explored:
        note(7)
        seen.append(asked.asked_for(JOB).ran)
        client.post("/lab/change", {"what": str(JOB), change: ""})
        run.side_effect = results
        note(8)
        raise AssertionError

    run.side_effect = cancelled
    asked.asked_for(JOB)
    explore()
    assert seen == [7]
    row = asked.asked_for(JOB)
    assert (row.summary, row.problem) == (None, "It was cancelled." if change == "cancel" else "")


def test_one_whose_process_was_killed_does_not_block_the_next(run: Mock) -> None:
    for job in (OTHER, JOB):
        asked.asked_for(job)
    Exploration.objects.filter(**JOB.where()).update(ran=3)
    explore()
    assert asked.asked_for(JOB).problem == command.KILLED
    assert asked.asked_for(OTHER).summary


def test_one_whose_process_is_ended_begins_again(run: Mock) -> None:
    asked.asked_for(JOB)
    results, run.side_effect = run.side_effect, SystemExit(143)
    with pytest.raises(SystemExit):
        explore()
    row = asked.asked_for(JOB)
    assert (row.summary, row.problem, row.ran) == (None, "", None)
    assert not is_locked(connection)
    run.side_effect = results
    explore()
    assert asked.asked_for(JOB).summary


def test_one_of_another_source_is_left_to_a_process_that_has_it(run: Mock) -> None:
    asked.asked_for(JOB)
    Exploration.objects.update(digest="of another machine")
    explore()
    run.assert_not_called()
    assert asked.waiting().exists()


def test_a_role_that_may_not_create_databases_is_named(
    run: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = LabRefusal("The role 'x' may not create databases.")
    monkeypatch.setattr(command, "scratch_database", Mock(side_effect=refusal))
    with pytest.raises(CommandError, match="The role 'x' may not"):
        explore(str(JOB))


@pytest.mark.parametrize("ends", ["another source", "another command", "the time"])
def test_it_waits_for_the_next_page(run: Mock, monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    asked.asked_for(JOB)
    events = iter(["next page", ends])

    def sleep(_: float) -> None:
        match next(events):
            case "next page":
                asked.asked_for(OTHER)
            case "another source":
                Exploration.objects.create(**THIRD.where(), digest="of tomorrow")
            case "another command":
                monkeypatch.setattr(command, "is_locked", lambda *_, **__: True)
            case "the time":
                monkeypatch.setattr("time.monotonic", lambda: inf)

    monkeypatch.setattr("time.sleep", sleep)
    explore("--wait=30")
    assert [call.args[0] for call in run.call_args_list] == [JOB, OTHER]
