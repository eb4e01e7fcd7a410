"""Explorations started from a page: permission, number at a time, progress."""

import subprocess
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from lab.conftest import NAIVE, Kept, get
from lab.models import Batch

pytestmark = pytest.mark.django_db


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Mock:
    started = Mock()
    monkeypatch.setattr(subprocess, "Popen", started)
    return started


def explore(client: Client, what: str) -> Any:
    return client.post("/lab/explore", {"what": what})


def test_an_exploration_is_started_once_and_leads_to_its_run(client: Client, started: Mock) -> None:
    response = explore(client, "lost_update/naive")
    batch = Batch.objects.get()
    assert (batch.what, batch.total) == ("lost_update/naive", 1)
    assert response.status_code == 302
    assert response["Location"] == f"/lab/runs/{batch.pk}/"
    started.assert_called_once()
    _python, _manage, *arguments, _database = started.call_args.args[0]
    assert arguments == ["record", "lost_update/naive", f"--batch={batch.pk}"]


def test_only_one_runs_at_a_time(client: Client, started: Mock, another_exploration: None) -> None:
    Batch.objects.create(what="museum")
    batch = Batch.objects.create(what="matrix")
    assert explore(client, "lost_update/naive")["Location"] == f"/lab/runs/{batch.pk}/"
    assert Batch.objects.count() == 2
    Batch.objects.all().delete()  # a command explores, and has no batch yet
    assert explore(client, "matrix")["Location"] == "/lab/"
    started.assert_not_called()


@pytest.mark.parametrize("what", ["", "lost_update/on_conflict", "\0"])
def test_an_unknown_exploration(client: Client, started: Mock, what: str) -> None:
    assert explore(client, what).status_code == 404
    started.assert_not_called()


def test_visitors_may_read_and_staff_may_explore(
    client: Client, settings: Settings, started: Mock, recorded: dict[str, Kept]
) -> None:
    settings.LOCAL = False
    client.force_login(User.objects.create_user("user"))
    assert explore(client, "matrix").status_code == 403
    assert explore(client, "everything").status_code == 403
    unexplored = f"{NAIVE}?level=repeatable+read"
    for path in ("/lab/", "/lab/isolation/", "/lab/museum/", NAIVE, unexplored):
        page = get(client, path)
        assert "<form" not in page
        assert "Staff users can start this exploration here" in page
    started.assert_not_called()

    client.force_login(User.objects.create_user("operator", is_staff=True))
    assert 'value="all"' in get(client, "/lab/")
    assert explore(client, "matrix").status_code == 302
    started.assert_called_once()


def test_no_other_site_starts_an_exploration(started: Mock) -> None:
    client = Client(enforce_csrf_checks=True)
    assert explore(client, "matrix").status_code == 403
    assert client.get("/lab/explore").status_code == 405
    started.assert_not_called()


ENDED = datetime(2022, 4, 29, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fields", "has_ended", "texts"),
    [
        ({}, False, ["<h1>Exploring</h1>", "Starting."]),
        ({"ended_at": ENDED}, True, ["<h1>Explored</h1>", '<a href="/lab/">Show the races</a>']),
        (
            {"ended_at": ENDED, "what": "lost_update/naive/2/serializable"},
            True,
            [f'<a href="{NAIVE}?level=serializable">Show it</a>'],
        ),
        ({"ended_at": ENDED, "what": "no_race/naive/2/read-committed"}, True, ["Show the races"]),
        (
            {"ended_at": ENDED, "problem": "Too much of it."},
            True,
            ["<h1>Not explored</h1>", '<p class="violated">Too much of it.</p>'],
        ),
        (
            {"started_at": ENDED},  # it was killed
            True,
            ["<h1>Not explored</h1>", "It was terminated before it had finished."],
        ),
    ],
)
def test_the_page_of_a_run(
    client: Client, fields: dict[str, Any], has_ended: bool, texts: list[str]
) -> None:
    batch = Batch.objects.create(**{"what": "matrix", "total": 70, **fields})
    page = get(client, f"/lab/runs/{batch.pk}/")
    assert ("data-ended" in page, "lab/batch.js" not in page) == (has_ended, has_ended)
    assert [text for text in texts if text not in page] == []
