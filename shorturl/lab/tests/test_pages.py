"""The lab's pages, as the server answers them: what they show, and what they refuse."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from django.utils.html import escape
from pytest_django import Settings

from shorturl.lab import measured, runs
from shorturl.lab.models import Recording, Run
from shorturl.lab.museum import MUSEUM
from shorturl.lab.races import RACES
from shorturl.lab.tests.conftest import Kept

pytestmark = pytest.mark.django_db

NAIVE = "/lab/races/lost_update/naive/2/"
RIGHT = "/lab/races/lost_update/update_returning/2/"
STALE = "stale: process 1 writes after it"


@pytest.fixture(autouse=True)
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the report of the load runs would be."""
    path = tmp_path / "races.json"
    monkeypatch.setattr(measured, "REPORT", path)
    return path


def get(client: Client, path: str) -> str:
    """Return a page with its white space made even."""
    response = client.get(path)
    assert response.status_code == 200, path
    assert "no-store" in response["Cache-Control"]
    return " ".join(response.content.decode().split())


# --- The index -----------------------------------------------------------------------------------


def test_index_before_anything_was_explored(client: Client) -> None:
    page = get(client, "/lab/")
    assert "Nothing was explored on this machine yet." in page
    assert "There was no load run yet" in page
    assert "schedules break</span>" not in page
    assert f'href="{NAIVE}">not explored</a>' in page
    assert "The last run" not in page
    for race in RACES.values():
        assert f'href="/lab/races/{race.name}/"' in page
        assert escape(race.situation) in page
        assert escape(race.must_hold) in page


def test_index_shows_what_was_explored(client: Client, recorded: dict[str, Kept]) -> None:
    run = Run.objects.create(what="matrix")
    page = get(client, "/lab/")
    newest = recorded["toctou/on_conflict"].recording
    assert f"{newest.recorded_at:%Y-%m-%d %H:%M}" in page
    assert newest.postgresql in page
    broken = '<a class="count breaks" href="{}"><span aria-hidden="true">✗</span> 4 / 6'
    assert broken.format(NAIVE) in page
    assert broken.format("/lab/races/toctou/check_first/2/") in page
    assert page.count("4 by an error") == 1  # of the two, only the create says so
    assert f'href="{RIGHT}"><span aria-hidden="true">✓</span> 0 / 2' in page
    assert f'<a href="/lab/runs/{run.pk}/">The last run</a>' in page


def test_index_says_where_a_search_was_cut(client: Client, recorded: dict[str, Kept]) -> None:
    Recording.objects.filter(strategy="update_returning").update(cut="max_schedules=2 reached")
    assert "✓</span> 0 / 2 …" in get(client, "/lab/")
    assert "the search was cut: max_schedules=2 reached" in get(client, RIGHT)


def test_index_shows_the_last_load_run(
    client: Client, report: Path, recorded: dict[str, Kept]
) -> None:
    keys = ("script", "strategy", "operation", "lost", "of", "share")
    runs = [
        ("lost_update", "naive", "resolve", 1234, 4936, 0.25),
        ("lost_update", "update_returning", "resolve", 0, 4000, 0.0),
        ("hot_and_cold", "naive", "resolve", 99, 100, 0.99),
    ]
    report.write_text(
        json.dumps(
            {
                "command": "make races",
                "date": "2001-02-03",
                "users": 17,
                "seconds": 5,
                "runs": [dict(zip(keys, run, strict=True)) for run in runs],
            }
        )
    )
    page = get(client, "/lab/")
    assert "The last <code>make races</code>, 2001-02-03: 17 users on gunicorn for 5 sec" in page
    assert "<td>1,234 of 4,936 (25.0%)</td><td><a" in page
    assert "<td>0 of 4,000</td><td><a" in page
    assert "99 of 100" not in page  # which is no race of the catalogue


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"runs": [{}]}', '{"runs": 1}'])
def test_index_passes_over_a_report_it_cannot_read(client: Client, report: Path, text: str) -> None:
    report.write_text(text)
    assert "There was no load run yet" in get(client, "/lab/")


# --- A race --------------------------------------------------------------------------------------


def test_a_race_shows_two_strategies_as_a_diff(client: Client, recorded: dict[str, Kept]) -> None:
    page = get(client, "/lab/races/lost_update/?left=naive&right=f_expression")
    assert "From <code>shorturl/resolving/naive.py</code>" in page
    assert "to <code>shorturl/resolving/f_expression.py</code>" in page
    removed = r'<tr class="removed"><td>\d+</td><td></td><td>-</td><td><code> *{}'
    added = r'<tr class="added"><td></td><td>\d+</td><td>\+</td><td><code> *{}'
    assert re.search(removed.format(r"short_url\.hits \+= 1<"), page)
    assert re.search(added.format(r"short_url\.hits = F\("), page)
    assert re.search(r"<tr class=""><td>\d+</td><td>\d+</td><td> </td><td><code>def resolve", page)
    assert page.count("<option selected>") == 2
    assert "<option selected>f_expression</option>" in page
    assert "2 processes</th><th" in page
    assert "3 processes</th>" in page
    assert f'href="{NAIVE}"' in page
    assert 'href="/lab/races/lost_update/naive/3/">not explored</a>' in page


def test_a_race_compares_the_first_with_the_last_by_itself(client: Client) -> None:
    page = get(client, "/lab/races/toctou/")
    first, *_, last = RACES["toctou"].strategies
    assert f"shorturl/creating/{first}.py" in page
    assert f"shorturl/creating/{last}.py" in page


@pytest.mark.parametrize("name", [*RACES, *MUSEUM])
def test_every_race_has_its_page(client: Client, name: str) -> None:
    page = get(client, f"/lab/races/{name}/")
    assert f"<h1>{name}</h1>" in page
    assert ("Found in" in page) is (name in MUSEUM)


@pytest.mark.parametrize(
    "path",
    [
        "races/no_race/",
        "races/lost_update/?left=no_strategy",
        "races/lost_update/?right=on_conflict",
        "races/no_race/naive/2/",
        "races/lost_update/on_conflict/2/",
        "races/lost_update/naive/1/",
        "races/lost_update/naive/4/",
        "races/lost_update/naive/99999999999999999999/",
        "races/lost_update/naive/2/?level=strict",
        "races/lost_update/naive/2/?schedule=1111",
        "races/lost_update/naive/2/?schedule=%00",
        "races/lost_update/naive/2/?predict=4",
        "races/lost_update/naive/2/?predict=-1",
        "races/lost_update/naive/2/?predict=two",
        "races/lost_update/naive/2/?predict=²",
        "runs/1/",
        "runs/99999999999999999999/",
    ],
)
def test_what_there_is_not(client: Client, recorded: dict[str, Kept], path: str) -> None:
    assert client.get(f"/lab/{path}").status_code == 404


# --- An exploration ------------------------------------------------------------------------------


def test_an_exploration_that_was_not_run_yet(client: Client) -> None:
    page = get(client, NAIVE)
    assert "This was not explored on this machine yet." in page
    assert 'name="what" value="lost_update/naive/2/read-committed"' in page
    assert 'class="lanes"' not in page
    assert "yet under serializable." in get(client, f"{NAIVE}?level=serializable")


def test_a_strategy_that_breaks(client: Client, recorded: dict[str, Kept]) -> None:
    page = get(client, NAIVE)
    assert '<b class="broken">4 of 6 schedules break</b>' in page
    assert "Schedule 2 of 6: <code>1212</code>" in page
    assert '<div class="verdict-box is-broken" id="verdict">' in page
    assert "<b>Broken: hits = 1, not 2.</b>" in page
    for mark in (STALE, "lost: overwritten by step 4", "overwrites step 3"):
        assert f'<p class="mark">{mark}</p>' in page
    assert page.count('<a tabindex="-1" href="?schedule=') == 6
    assert page.count('class="b"') == 3
    assert page.count('class="b here"') == 1
    assert '<a href="?schedule=1122">previous</a>' in page
    assert '<a href="?schedule=1221">next</a>' in page
    assert '<a href="?schedule=1221">next that breaks</a>' in page


def test_a_strategy_that_holds(client: Client, recorded: dict[str, Kept]) -> None:
    page = get(client, RIGHT)
    assert '<b class="held">0 of 2 schedules break</b>' in page
    assert "<b>Holds: All are redirected, and each is counted.</b>" in page
    assert "is-broken" not in page
    assert 'class="mark"' not in page
    assert "next that breaks" not in page
    assert "previous" not in page


def test_the_schedule_that_is_asked_for(client: Client, recorded: dict[str, Kept]) -> None:
    page = get(client, f"{NAIVE}?schedule=1122")
    assert "Schedule 1 of 6: <code>1122</code>" in page
    assert "<b>Holds: All are redirected, and each is counted.</b>" in page
    assert "is-broken" not in page
    assert page.count('class=" here"') == 1
    last = get(client, f"{NAIVE}?schedule=2211")
    assert '<a href="?schedule=2121">previous</a>' in last
    assert ">next</a>" not in last
    assert '<a href="?schedule=1212">next that breaks</a>' in last  # from the start again


def test_every_step_of_every_schedule_is_shown(client: Client, recorded: dict[str, Kept]) -> None:
    for path, what in ((NAIVE, "lost_update/naive"), (RIGHT, "lost_update/update_returning")):
        for schedule in recorded[what].schedules:
            response = client.get(path, {"schedule": schedule.order})
            rows = response.context["rows"]
            assert [row["step"] for row in rows] == schedule.steps
            for row, step in zip(rows, schedule.steps, strict=True):
                taking = [cell.get("step") for cell in row["cells"]]
                assert taking[step["process"] - 1] == step
                assert taking.count(None) == len(taking) - 1


def test_a_wait_is_shown_as_long_as_it_takes(client: Client, recorded: dict[str, Kept]) -> None:
    path = "/lab/races/lost_update/select_for_update/2/?schedule=121122"
    page = get(client, path)
    assert page.count("waits for process 1</p>") == 1
    assert page.count('class="waiting"') == 1
    assert page.count("goes on with step 2</p>") == 1
    cells = [row["cells"][1] for row in client.get(path).context["rows"]]
    assert [sorted(cell) for cell in cells[:4]] == [
        [],
        ["marks", "step", "waits"],
        ["waiting"],
        ["back"],
    ]


def test_what_a_process_raises_is_shown(client: Client, recorded: dict[str, Kept]) -> None:
    page = get(client, "/lab/races/toctou/check_first/2/?schedule=1212")
    assert "<p>Process 2 raises IntegrityError: duplicate key value" in page
    assert "Process 1 raises" not in page
    assert '<p class="returned error">!! ' in page


def test_the_source_has_the_line_that_sent_each_step(
    client: Client, recorded: dict[str, Kept]
) -> None:
    page = get(client, NAIVE)
    assert "<code>shorturl/resolving/naive.py</code>" in page
    for step in recorded["lost_update/naive"].schedule("1212").steps:
        assert f'data-line="{step["line"]}"' in page
        assert f'<a href="#L{step["line"]}">line {step["line"]}</a>' in page
        assert f'id="L{step["line"]}"' in page


def test_another_isolation_level(client: Client, recorded: dict[str, Kept]) -> None:
    page = get(client, f"{NAIVE}?level=serializable")
    assert "2 processes, serializable, explored in" in page
    assert '<a href="?level=serializable&amp;schedule=1122">previous</a>' in page
    assert 'value="lost_update/naive/2/serializable"' in page
    predict = get(client, f"{NAIVE}?level=serializable&schedule=1212&predict=2")
    assert '<input type="hidden" name="level" value="serializable">' in predict
    assert "was not explored" in get(client, f"{NAIVE}?level=repeatable+read")


# --- Predict first -------------------------------------------------------------------------------


def test_predict_hides_what_follows(client: Client, recorded: dict[str, Kept]) -> None:
    shown = get(client, f"{NAIVE}?schedule=1212")
    page = get(client, f"{NAIVE}?schedule=1212&predict=2")
    steps = recorded["lost_update/naive"].schedule("1212").steps
    for secret in ("<code>UPDATE", "→ 1 row", "hits = 1", "is-broken", 'class="mark"', STALE):
        assert secret in shown
        assert secret not in page
    assert page.count("<code>SELECT …") == 2
    assert page.count('<td class="state">hits = 0</td>') == 2
    assert page.count("takes its next step: ?") == len(steps) - 2
    assert "process 1 takes its next step: ?" in page
    assert 'id="step-2"' in page
    assert 'id="step-3"' not in page
    assert "Now they hold: hits = 0." in page
    assert 'class="strip"' not in page  # which has a colour for those that break
    assert 'id="verdict"' not in page
    assert '<input type="hidden" name="schedule" value="1212">' in page


def test_predict_from_the_very_start(client: Client, recorded: dict[str, Kept]) -> None:
    page = get(client, f"{NAIVE}?schedule=1212&predict=0")
    assert "SELECT" not in page.partition('class="source"')[0]
    assert "Now they hold" not in page
    assert page.count("takes its next step: ?") == 4


def test_a_guess_reveals(client: Client, recorded: dict[str, Kept]) -> None:
    page = get(client, f"{NAIVE}?schedule=1212&guess=hits+%3D+2%3Cb%3E")
    assert "You predicted: hits = 2&lt;b&gt;. The rows hold: hits = 1." in page
    assert "Broken: hits = 1, not 2." in page
    assert "You predicted" not in get(client, f"{NAIVE}?schedule=1212")
    assert f"You predicted: {'x' * 100}." in get(client, f"{NAIVE}?guess={'x' * 101}")


# --- Isolation and museum ------------------------------------------------------------------------


def test_isolation_has_a_column_for_each_level(client: Client, recorded: dict[str, Kept]) -> None:
    page = get(client, "/lab/isolation/")
    for level in ("read committed", "repeatable read", "serializable"):
        assert page.count(f'<th scope="col">{level}</th>') == 3
    assert f'<a class="count breaks" href="{NAIVE}">' in page
    assert f'<a class="count breaks" href="{NAIVE}?level=serializable">' in page
    assert f'href="{NAIVE}?level=repeatable+read">not explored</a>' in page
    assert 'name="what" value="isolation"' in page


def test_museum_shows_each_exhibit_with_its_source(
    client: Client, recorded: dict[str, Kept]
) -> None:
    page = get(client, "/lab/museum/")
    response = client.get("/lab/museum/")
    assert [exhibit for exhibit, _ in response.context["exhibits"]] == list(MUSEUM.values())
    for name in MUSEUM:
        assert f'<a href="/lab/races/{name}/">{name}</a>' in page
    assert (
        'href="/lab/races/limited_use/as_found/2/"><span aria-hidden="true">✗</span> 4 / 6' in page
    )
    assert 'name="what" value="museum"' in page


# --- To explore ----------------------------------------------------------------------------------


class Started:
    """Stands in for the process of a run."""

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
    monkeypatch.setattr(runs.subprocess, "Popen", Started)
    return Started.commands


def explore(client: Client, what: str) -> Any:
    return client.post("/lab/explore", {"what": what})


def test_an_exploration_is_started_once_and_leads_to_its_run(
    client: Client, started: list[list[str]]
) -> None:
    response = explore(client, "lost_update/naive")
    run = Run.objects.get()
    assert (run.what, run.total) == ("lost_update/naive", 1)
    assert response.status_code == 302
    assert response["Location"] == f"/lab/runs/{run.pk}/"
    [command] = started
    assert command[2:4] == ["record", "lost_update/naive"]
    assert f"--run={run.pk}" in command


def test_only_one_goes_on_at_a_time(
    client: Client, started: list[list[str]], somebody_explores: None
) -> None:
    Run.objects.create(what="museum")
    run = Run.objects.create(what="matrix")
    assert explore(client, "lost_update/naive")["Location"] == f"/lab/runs/{run.pk}/"
    assert Run.objects.count() == 2
    assert started == []


def test_only_one_goes_on_at_a_time_when_a_command_has_no_run_yet(
    client: Client, started: list[list[str]], somebody_explores: None
) -> None:
    assert explore(client, "matrix")["Location"] == "/lab/"


@pytest.mark.parametrize("what", ["", "everything", "lost_update/on_conflict", "a/b", "\0"])
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
        assert "Members of the staff can explore it from here" in page


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


# --- A run ---------------------------------------------------------------------------------------


def run_page(client: Client, **fields: Any) -> str:
    run = Run.objects.create(**{"what": "matrix", "total": 70, **fields})
    if "started_at" in fields:
        Run.objects.filter(pk=run.pk).update(started_at=fields["started_at"])
    return get(client, f"/lab/runs/{run.pk}/")


def test_a_run_that_begins(client: Client) -> None:
    page = run_page(client)
    assert "<h1>Exploring</h1>" in page
    assert "It begins." in page
    assert "lab/run.js" in page


def test_a_run_that_goes_on(client: Client, somebody_explores: None) -> None:
    long_ago = timezone.now() - timedelta(hours=1)
    page = run_page(client, done=3, current="toctou/naive: 5 schedules", started_at=long_ago)
    assert "<p>matrix: 3 of 70.</p>" in page
    assert '<progress max="70" value="3"' in page
    assert "toctou/naive: 5 schedules" in page
    assert "Look again" in page
    assert "data-ended" not in page


def test_a_run_that_has_ended(client: Client) -> None:
    page = run_page(client, done=70, ended_at=timezone.now())
    assert "<h1>Explored</h1>" in page
    assert "data-ended" in page
    assert '<a href="/lab/">See the races</a>' in page
    assert "lab/run.js" not in page
    page = run_page(client, what="lost_update/naive/2/serializable", ended_at=timezone.now())
    assert f'<a href="{NAIVE}?level=serializable">See it</a>' in page


def test_a_run_that_failed(client: Client) -> None:
    page = run_page(client, problem="Too much of it.", ended_at=timezone.now())
    assert "<h1>Not explored</h1>" in page
    assert '<p class="broken">Too much of it.</p>' in page
    assert "Done." not in page


def test_a_run_that_was_killed(client: Client) -> None:
    page = run_page(client, done=1, started_at=timezone.now() - timedelta(hours=1))
    assert "<h1>Not explored</h1>" in page
    assert "It was ended before it came to an end." in page
    assert "data-ended" in page
    assert "lab/run.js" not in page


def test_a_run_of_what_there_is_no_longer(client: Client) -> None:
    page = run_page(client, what="no_race/naive/2/read-committed", ended_at=timezone.now())
    assert "See the races" in page
