"""Pages that are not explored yet: what they show, and who may cancel and repeat."""

from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from lab.conftest import NAIVE, Kept, get
from lab.exploring import asked
from lab.exploring.jobs import jobs_named
from lab.models import Exploration

pytestmark = pytest.mark.django_db

PAGES = ("/lab/", NAIVE, f"{NAIVE}scheduler/", f"{NAIVE}?schedule=121122&predict=2", "/lab/queue/")
(JOB,) = jobs_named("lost_update/naive")
(OTHER,) = jobs_named("toctou/naive/2/serializable")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_asks_for_its_exploration_and_shows_how_far_it_is(
    client: Client, started: Mock, path: str
) -> None:
    response = client.get(path)
    assert response["Refresh"] == "1"
    started.assert_called_once()
    assert "<svg" not in response.content.decode()
    page = get(client, path)
    assert "or when another exploration has ended." in page
    assert "An exploration ends after 120 seconds at the latest." in page
    asked.asked_for(OTHER)
    Exploration.objects.filter(race="toctou").update(ran=1)
    named = '<a href="/lab/races/toctou/naive/2/?level=serializable">toctou × naive</a>'
    assert f"or when {named} has ended." in get(client, path)
    Exploration.objects.update(ran=6)
    strategy, of = ("select_for_update", 72) if "queue" in path else ("naive", 14)
    page = get(client, path)
    assert f"<b>lost_update × {strategy}</b> is being explored with" in page
    assert f"<b>6 of {of}</b> schedules have run." in page
    assert f'value="6" max="{of}"' in page
    assert Exploration.objects.count() == 2


def test_what_takes_long_has_no_total(client: Client, started: Mock) -> None:
    """Partial-order reduction leaves an unknown number of schedules out."""
    path = "/lab/races/lost_update/naive/3/"
    client.get(f"{path}?level=serializable")
    assert "with 3 processes under serializable" in get(client, f"{path}?level=serializable")
    client.get(path)
    Exploration.objects.update(ran=1000)
    assert "<b>1,000</b> schedules have run." in get(client, path)


def test_what_is_explored_is_shown_at_once_and_what_has_changed_is_not(
    client: Client, started: Mock, stored: dict[str, Kept]
) -> None:
    for path in PAGES:
        response = client.get(path)
        assert "Refresh" not in response
        assert "<svg" in response.content.decode()
    started.assert_not_called()
    Exploration.objects.update(digest="of what was before")
    assert "<svg" not in get(client, NAIVE)
    started.assert_called_once()
    assert Exploration.objects.get(**JOB.where()).summary is None


def test_one_that_has_failed_says_why_and_is_explored_again(client: Client, started: Mock) -> None:
    client.get(NAIVE)
    Exploration.objects.update(problem="No <database>.")
    for path in PAGES[:-1]:
        response = client.get(path)
        assert "Refresh" not in response
        assert "Not explored: No &lt;database&gt;." in response.content.decode()
    started.assert_called_once()
    page = get(client, NAIVE)
    assert f'name="what" value="{JOB}"' in page
    assert 'name="again">Explore it again</button>' in page
    assert change(client, "again", f"{JOB}")["Location"] == NAIVE
    assert client.get(NAIVE)["Refresh"]


def change(client: Client, name: str, what: str) -> Any:
    return client.post("/lab/change", {"what": what, name: ""})


def test_one_can_be_cancelled_and_a_complete_one_cannot(
    client: Client, started: Mock, stored: dict[str, Kept]
) -> None:
    strict = "/lab/races/lost_update/naive/2/?level=repeatable+read"
    assert 'name="cancel">Cancel</button>' in get(client, strict)
    path = change(client, "cancel", "lost_update/naive/2/repeatable-read")["Location"]
    assert path == strict
    assert "Not explored: It was cancelled." in get(client, path)
    change(client, "cancel", f"{JOB}")
    assert "<svg" in get(client, NAIVE)


@pytest.mark.parametrize("what", ["", "lost_update/on_conflict", "\0"])
def test_an_unknown_exploration(client: Client, what: str) -> None:
    assert change(client, "again", what).status_code == 404


def test_visitors_explore_some_pages_and_only_staff_changes(
    client: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch, started: Mock
) -> None:
    settings.LOCAL = False
    monkeypatch.setattr(asked, "MOST", 1)
    client.force_login(User.objects.create_user("user"))
    page = get(client, NAIVE)
    assert "is being explored" in page
    assert "<form" not in page
    assert change(client, "cancel", f"{JOB}").status_code == 403
    page = get(client, "/lab/queue/")
    assert f"Not explored: {asked.REFUSED}" in page
    assert "<form" not in page
    started.assert_called_once()

    client.force_login(User.objects.create_user("operator", is_staff=True))
    assert 'name="cancel"' in get(client, "/lab/queue/")
    assert change(client, "cancel", f"{JOB}").status_code == 302


def test_no_other_site_changes_an_exploration() -> None:
    client = Client(enforce_csrf_checks=True)
    assert change(client, "again", f"{JOB}").status_code == 403
    assert client.get("/lab/change").status_code == 405
