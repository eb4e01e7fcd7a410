"""Explorations that are started from a page: who may, how many at a time, how far they are."""

import subprocess
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from lab.conftest import NAIVE, Kept, get
from lab.models import Batch

pytestmark = pytest.mark.django_db


class Started:
    """Stands in for the process of a batch."""

    commands: list[list[str]] = []

    def __init__(self, command: list[str], **options: Any) -> None:
        self.commands.append(command)

    def wait(self) -> int:
        return 0

    def terminate(self) -> None:
        """There is nothing to end."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were started."""
    monkeypatch.setattr(Started, "commands", [])
    monkeypatch.setattr(subprocess, "Popen", Started)
    return Started.commands


def explore(client: Client, what: str) -> Any:
    return client.post("/lab/explore", {"what": what})


def test_an_exploration_is_started_once_and_leads_to_its_run(
    client: Client, started: list[list[str]]
) -> None:
    response = explore(client, "lost_update/naive")
    batch = Batch.objects.get()
    assert (batch.what, batch.total) == ("lost_update/naive", 1)
    assert response.status_code == 302
    assert response["Location"] == f"/lab/runs/{batch.pk}/"
    [command] = started
    assert command[2:4] == ["record", "lost_update/naive"]
    assert f"--batch={batch.pk}" in command


def test_only_one_goes_on_at_a_time(
    client: Client, started: list[list[str]], somebody_explores: None
) -> None:
    Batch.objects.create(what="museum")
    batch = Batch.objects.create(what="matrix")
    assert explore(client, "lost_update/naive")["Location"] == f"/lab/runs/{batch.pk}/"
    assert Batch.objects.count() == 2
    Batch.objects.all().delete()  # as when a command explores that has no batch yet
    assert explore(client, "matrix")["Location"] == "/lab/"
    assert started == []


@pytest.mark.parametrize("what", ["", "lost_update/on_conflict", "\0"])
def test_what_cannot_be_explored(client: Client, started: list[list[str]], what: str) -> None:
    assert explore(client, what).status_code == 404
    assert started == []


def test_a_stranger_may_look_and_not_explore(
    client: Client, settings: Settings, started: list[list[str]], recorded: dict[str, Kept]
) -> None:
    settings.LOCAL = False
    client.force_login(User.objects.create_user("user"))
    assert explore(client, "matrix").status_code == 403
    assert explore(client, "everything").status_code == 403
    assert started == []
    for path in (
        "/lab/",
        "/lab/isolation/",
        "/lab/museum/",
        NAIVE,
        f"{NAIVE}?level=repeatable+read",
    ):
        page = get(client, path)
        assert "<form" not in page
        assert "Staff users can start this exploration here" in page


def test_the_staff_may_explore(
    client: Client, settings: Settings, started: list[list[str]]
) -> None:
    settings.LOCAL = False
    client.force_login(User.objects.create_user("operator", is_staff=True))
    assert 'value="matrix"' in get(client, "/lab/")
    assert explore(client, "matrix").status_code == 302
    assert len(started) == 1


def test_no_other_site_starts_an_exploration(started: list[list[str]]) -> None:
    client = Client(enforce_csrf_checks=True)
    assert explore(client, "matrix").status_code == 403
    assert client.get("/lab/explore").status_code == 405
    assert started == []


# --- A batch -------------------------------------------------------------------------------------


def batch_page(client: Client, **fields: Any) -> str:
    batch = Batch.objects.create(**{"what": "matrix", "total": 70, **fields})
    if "started_at" in fields:
        Batch.objects.filter(pk=batch.pk).update(started_at=fields["started_at"])
    return get(client, f"/lab/runs/{batch.pk}/")


def test_a_run_that_begins(client: Client) -> None:
    page = batch_page(client)
    assert "<h1>Exploring</h1>" in page
    assert "Starting." in page
    assert "lab/batch.js" in page


def test_a_run_that_goes_on(client: Client, somebody_explores: None) -> None:
    long_ago = timezone.now() - timedelta(hours=1)
    page = batch_page(client, done=3, current="toctou/naive: 5 schedules", started_at=long_ago)
    assert "<p>matrix: 3 of 70.</p>" in page
    assert '<progress max="70" value="3"' in page
    assert "toctou/naive: 5 schedules" in page
    assert "Refresh" in page
    assert "data-ended" not in page


def test_a_run_that_has_ended(client: Client) -> None:
    page = batch_page(client, done=70, ended_at=timezone.now())
    assert "<h1>Explored</h1>" in page
    assert "data-ended" in page
    assert '<a href="/lab/">Show the races</a>' in page
    assert "lab/batch.js" not in page
    page = batch_page(client, what="lost_update/naive/2/serializable", ended_at=timezone.now())
    assert f'<a href="{NAIVE}?level=serializable">Show it</a>' in page


def test_a_run_that_failed(client: Client) -> None:
    page = batch_page(client, problem="Too much of it.", ended_at=timezone.now())
    assert "<h1>Not explored</h1>" in page
    assert '<p class="broken">Too much of it.</p>' in page
    assert "Done." not in page


def test_a_run_that_was_killed(client: Client) -> None:
    page = batch_page(client, done=1, started_at=timezone.now() - timedelta(hours=1))
    assert "<h1>Not explored</h1>" in page
    assert "It was terminated before it had finished." in page
    assert "data-ended" in page
    assert "lab/batch.js" not in page


def test_a_run_of_what_there_is_no_longer(client: Client) -> None:
    page = batch_page(client, what="no_race/naive/2/read-committed", ended_at=timezone.now())
    assert "Show the races" in page
