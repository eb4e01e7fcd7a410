"""The pages of a room: of the teacher, and of 40 phones that vote at once."""

import re
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import requests
from django.db import connection
from django.test import Client
from pytest_django import Settings

from lab.conftest import NAIVE_PATH, TIMEOUT, get_page
from lab.room.models import Question
from loadtests.servers import NO_REFUSALS, own_postgres, serving

CELL = "lost_update/naive/2/read-committed"
ROOM, LEAD, ASK, VOTE = "/lab/room/", "/lab/room/lead/", "/lab/room/ask", "/lab/room/vote"
PHONES = 40


def make_vote(order: str, *, taken: str = "", cell: str = CELL) -> dict[str, str]:
    return {"cell": cell, "taken": taken, "order": order}


@pytest.mark.django_db
def test_a_room_votes_takes_the_steps_and_leaves_nothing(client: Client) -> None:
    assert "No room is open" in get_page(client, LEAD)
    assert "No question yet" in get_page(client, ROOM)
    assert f'href="{LEAD}?cell={CELL}">ask a room' in get_page(client, f"{NAIVE_PATH}scheduler/")
    assert "ask a room" not in get_page(client, f"{NAIVE_PATH}scheduler/?taken=1")
    assert f'name="cell" value="{CELL}"' in get_page(client, f"{LEAD}?cell={CELL}")
    client.post(ASK, {"cell": CELL, "open": ""})
    assert "You have one vote" in get_page(client, ROOM)
    for order in ("1", "2"):  # the phone changes its vote
        client.post(VOTE, make_vote(order))
    assert re.search('value="2" aria-pressed="true"', get_page(client, ROOM))
    page = get_page(client, LEAD)
    assert "1 vote<" in page
    assert '<meter max="1" value="0" aria-label="Votes for process 1">' in page
    assert '<meter max="1" value="1" aria-label="Votes for process 2">' in page
    assert f'action="{ASK}"' in page
    client.post(ASK, {"cell": CELL, "open": ""})  # again
    assert "0 votes" in get_page(client, LEAD)
    client.post(ASK, {"cell": CELL, "taken": "2"})
    assert "Now: hits = 0. Process 2 reads hits = 0." in get_page(client, ROOM)
    page = get_page(client, LEAD)
    for name, before in (("back", ""), ("again", ""), ("choice-1", "21")):
        assert re.search(f'id="{name}"[^>]* name="taken" value="{before}"', page)
    client.post(VOTE, make_vote("1"))  # too late
    client.post(VOTE, make_vote("21", taken="2", cell=CELL.replace("naive", "select_for_update")))
    assert "0 votes" in get_page(client, LEAD)
    client.post(ASK, {"cell": CELL, "taken": "211212"})
    for path in (ROOM, LEAD):
        page = get_page(client, path)
        assert "Violated: hits = 1, not 2" in page
        assert 'name="order"' not in page
    assert "Ask the same with select_for_update" in page
    assert f'value="{CELL.replace("naive", "select_for_update")}"' in page
    for path in (LEAD, f"{LEAD}?cell={CELL}"):  # each form has its token
        page = get_page(client, path)
        assert page.count('method="post"') == page.count('name="csrfmiddlewaretoken"') > 0
    client.post(ASK, {"end": ""})
    assert not Question.objects.exists()
    with connection.cursor() as cursor:
        cursor.execute("SELECT relpersistence FROM pg_class WHERE relname = 'room_question'")
        assert cursor.fetchone() == ("u",)  # unlogged: no vote waits for the disk


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "form"),
    [
        (ASK, {"cell": "lost_update"}),
        (ASK, {"cell": CELL, "taken": "3"}),
        (VOTE, make_vote("3")),
        (VOTE, make_vote("")),
        (VOTE, make_vote("11", taken="2")),
        (VOTE, make_vote("1", cell="lost_update/nothing/2/read-committed")),
    ],
    ids=[
        "a race alone",
        "steps of no process",
        "a step of no process",
        "no step",
        "other steps before",
        "no strategy",
    ],
)
def test_what_is_no_step_of_a_race_is_a_404(
    client: Client, path: str, form: dict[str, str]
) -> None:
    assert client.post(path, form).status_code == 404
    assert client.get(path, form).status_code == 405
    assert not Question.objects.exists()


@pytest.mark.django_db
def test_only_the_laptop_itself_takes_steps(client: Client) -> None:
    client.post(ASK, {"cell": CELL, "taken": ""})
    elsewhere: Any = {"REMOTE_ADDR": "192.168.1.30"}
    assert client.get(LEAD, **elsewhere)["Location"] == ROOM
    for form in ({"end": ""}, {"cell": CELL, "taken": "1"}):
        assert client.post(ASK, form, **elsewhere)["Location"] == ROOM
    assert Question.objects.get().taken == ""
    assert client.get(LEAD, REMOTE_ADDR="::1").status_code == 200


@pytest.mark.django_db
def test_a_phone_without_its_cookie_votes_again(client: Client) -> None:
    """It is told so, and gets another cookie."""
    client.post(ASK, {"cell": CELL, "taken": ""})
    client.get(ROOM)
    cookie = client.cookies["phone"]
    assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == (ROOM, True, "Lax")
    client.cookies["phone"] = "made-up"  # not signed
    response = client.post(VOTE, make_vote("1"), follow=True)
    assert "Your vote is not counted" in response.content.decode()
    assert Question.objects.get().votes == {}
    response = client.post(VOTE, make_vote("1"), follow=True)
    assert "Your vote is counted" in response.content.decode()
    assert [*Question.objects.get().votes.values()] == ["1"]


@pytest.mark.django_db
def test_the_teacher_sees_where_phones_vote(client: Client, settings: Settings) -> None:
    client.post(ASK, {"cell": CELL, "taken": ""})
    for settings.HOST in ("127.0.0.1", "localhost", "::1", "[::1]"):
        assert "No phone reaches this page yet" in get_page(client, LEAD)
    settings.HOST = "0.0.0.0"
    settings.SHORTURL_ORIGIN = "http://192.168.1.20:8000"
    page = get_page(client, LEAD)
    assert 'Vote at <a href="http://192.168.1.20:8000/lab/room/">' in page
    assert 'aria-label="QR code of http://192.168.1.20:8000/lab/room/"><svg' in page


def open_page(url: str, path: str) -> tuple[requests.Session, dict[str, str]]:
    """Open a page of the room as another browser; return it, and what its form has to send."""
    browser = requests.Session()
    page = browser.get(f"{url}{path}", timeout=TIMEOUT)
    (token,) = re.findall('name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    return browser, {"csrfmiddlewaretoken": token}


def test_forty_phones_vote_at_once() -> None:
    """On gunicorn with two workers each phone votes twice, and is counted once."""
    with own_postgres() as postgres, serving(DATABASE_URL=postgres.url, **NO_REFUSALS) as service:
        teacher, token = open_page(service.url, f"{LEAD}?cell={CELL}")
        form = {"cell": CELL, "taken": "", **token}
        teacher.post(f"{service.url}{ASK}", form, timeout=TIMEOUT).raise_for_status()
        start = Barrier(PHONES)

        def vote_twice(number: int) -> None:
            phone, token = open_page(service.url, ROOM)
            start.wait(TIMEOUT)
            for order in ("1", "1" if number % 4 else "2"):
                form = make_vote(order) | token
                page = phone.post(f"{service.url}{VOTE}", form, timeout=TIMEOUT)
                assert "Your vote is counted" in page.text

        with ThreadPoolExecutor(PHONES) as pool:
            assert len([*pool.map(vote_twice, range(PHONES))]) == PHONES
        page = teacher.get(f"{service.url}{LEAD}", timeout=TIMEOUT).text
        assert f"{PHONES} votes" in page
        assert '<meter max="40" value="30" aria-label="Votes for process 1">' in page
        assert '<meter max="40" value="10" aria-label="Votes for process 2">' in page
        teacher.post(f"{service.url}{ASK}", {"end": "", **token}, timeout=TIMEOUT)
        with postgres.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM room_question")
            assert cursor.fetchone() == (0,)
