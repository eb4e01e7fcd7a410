"""The lab's pages without a browser: their content and their refusals."""

import json
import os
import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape
from pytest_django.asserts import assertContains

from lab.conftest import NAIVE, RIGHT, Kept, get
from lab.models import Batch, Recording
from lab.pages import measured
from lab.races import EVERY_RACE, RACES
from lab.races.museum import MUSEUM
from lab.recording import batches
from lab.recording.jobs import ISOLATED, jobs_named
from shorturl.strategies.strategy import Verdict

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "races.json"
    monkeypatch.setattr(measured, "REPORT", path)
    return path


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> Mock:
    started = Mock()
    monkeypatch.setattr(batches, "start", started)
    return started


def test_what_is_not_explored_is_explored_when_the_service_starts(
    started: Mock, recorded: dict[str, Kept]
) -> None:
    batches.start_the_first()
    Batch.objects.create(what="all", problem="No database.", ended_at=timezone.now())
    Recording.objects.all().delete()
    batches.start_the_first()  # a failed batch is not repeated
    started.assert_not_called()
    Batch.objects.create(what="all", problem="Interrupted (SystemExit).", ended_at=timezone.now())
    batches.start_the_first()  # the service was stopped in the middle
    Batch.objects.all().delete()
    batches.start_the_first()
    assert started.call_args_list == [call("all", len(jobs_named("all")), "--missing")] * 2


def test_every_page_that_waits_for_an_exploration_shows_its_progress(client: Client) -> None:
    batch = Batch.objects.create(what="matrix", total=70, done=3)
    said = "<b>The races are being explored</b>: 3 of 70."
    for page in "", "isolation/", "museum/", "races/lost_update/", "races/lost_update/naive/2/":
        shown = get(client, f"/lab/{page}")
        assert said in shown, page
        assert "lab/batch.js" in shown
    for page in "queue/", "races/lost_update/naive/3/":  # which are not in the matrix
        shown = get(client, f"/lab/{page}")
        assert "This has not been explored" in shown, page
        assert "lab/batch.js" not in shown
    Batch.objects.filter(pk=batch.pk).update(what="all")
    assert said in get(client, "/lab/queue/")
    assert Batch.objects.get().wanted == "lost_update/select_for_update/3/read-committed"


def test_index_before_any_exploration(client: Client) -> None:
    page = get(client, "/lab/")
    assert "Nothing has been explored on this machine yet." in page
    assert "There has been no load test yet" in page
    assert "schedules violate the invariant</span>" not in page
    assert f'href="{NAIVE}">not explored</a>' in page
    assert "The last run" not in page
    assert 'href="/lab/races/write_skew/"' in page
    for race in RACES.values():
        assert f'href="/lab/races/{race.name}/"' in page
        assert escape(race.situation) in page
        assert escape(race.must_hold) in page


def test_index_shows_what_was_explored(client: Client, recorded: dict[str, Kept]) -> None:
    batch = Batch.objects.create(what="matrix")
    page = get(client, "/lab/")
    shown = Recording.objects.filter(race__in=RACES, isolation="read committed")
    newest = shown.latest("recorded_at")  # not always the newest recording of all
    assert f"{newest.recorded_at:%Y-%m-%d %H:%M}" in page
    assert newest.postgresql in page
    violating = '<a class="count wrong" href="{}"><span aria-hidden="true">✗</span> 12 / 14'
    assert violating.format(NAIVE) in page
    refused = '<a class="count refused" href="{}"><span aria-hidden="true">⊘</span> 12 / 14'
    assert refused.format("/lab/races/toctou/check_first/2/") in page
    assert f'href="{RIGHT}"><span aria-hidden="true">✓</span> 0 / 4' in page
    assert f'<a href="/lab/runs/{batch.pk}/">The last run</a>' in page
    right = Recording.objects.filter(strategy="update_returning")
    right.update(truncated="max_schedules=2 reached")
    assert '<span aria-hidden="true">?</span> not proven</a>' in get(client, "/lab/")
    assert "truncated: max_schedules=2 reached, so nothing is proven" in get(client, RIGHT)


def test_index_shows_the_last_load_run(
    client: Client, report: Path, recorded: dict[str, Kept]
) -> None:
    keys = ("script", "strategy", "operation", "lost", "of", "share", "per_second")
    runs = [
        ("lost_update", "naive", "resolve", 1234, 4936, 0.25, 987.4),
        ("lost_update", "update_returning", "resolve", 0, 4000, 0.0, 800.0),
        ("hot_and_cold", "naive", "resolve", 99, 100, 0.99, 20.0),
    ]
    run: dict[str, Any] = {"command": "make races", "date": "2001-02-03", "users": 17}
    run |= {"seconds": 5, "left": 0, "runs": [dict(zip(keys, each, strict=True)) for each in runs]}
    report.write_text(json.dumps(run))
    page = get(client, "/lab/")
    assert "to come" not in page
    assert "lab/live.js" not in page
    assert "The last <code>make races</code>, 2001-02-03: 17 users on gunicorn for 5 sec" in page
    assert '<meter max="987.4" value="800.0" aria-label="Speed of update_returning">' in page
    assert "</meter> 987</td>" in page
    assert "</meter> 1,234 of 4,936 (25.0%)</td><td><a" in page
    assert "</meter> 0 of 4,000</td><td><a" in page
    assert "99 of 100" not in page  # hot_and_cold is no race of the catalogue
    report.write_text(json.dumps({**run, "left": 1}))
    page = get(client, "/lab/")
    assert "<b>1 run to come.</b>" in page
    assert "lab/live.js" in page
    os.utime(report, (0, 0))  # the command was ended
    assert "lab/live.js" not in get(client, "/lab/")


@pytest.mark.parametrize("text", ["", "[]", '{"runs": [{}]}'])
def test_index_ignores_an_unreadable_report(client: Client, report: Path, text: str) -> None:
    report.write_text(text)
    assert "There has been no load test yet" in get(client, "/lab/")


def test_a_race_shows_two_strategies_as_a_diff(client: Client, recorded: dict[str, Kept]) -> None:
    page = get(client, "/lab/races/lost_update/?left=naive&right=f_expression")
    assert "From <code>shorturl/strategies/resolving/naive.py</code>" in page
    assert "to <code>shorturl/strategies/resolving/f_expression.py</code>" in page
    removed = r'<tr class="removed"><td>\d+</td><td></td><td>-</td><td><code> *{}'
    added = r'<tr class="added"><td></td><td>\d+</td><td>\+</td><td><code> *{}'
    assert re.search(removed.format(r"short_url\.hits \+= 1<"), page)
    assert re.search(added.format(r"short_url\.hits = F\("), page)
    assert re.search(r'<tr class=""><td>\d+</td><td>\d+</td><td> </td><td><code>def resolve', page)
    assert page.count("<option selected>") == 2
    assert "<option selected>f_expression</option>" in page
    assert "2 processes</th><th" in page
    assert "3 processes</th>" in page
    assert f'href="{NAIVE}"' in page
    assert 'href="/lab/races/lost_update/naive/3/">not explored</a>' in page


@pytest.mark.parametrize("name", EVERY_RACE)
def test_every_race_has_its_page(client: Client, name: str) -> None:
    page = get(client, f"/lab/races/{name}/")
    assert f"<h1>{name}</h1>" in page
    assert ("Found in" in page) is (name in MUSEUM)
    verdicts = {each.name: each.verdict for each in EVERY_RACE[name].strategies.values()}
    chosen = re.findall(r"<option selected>(\w+)</option>", page)
    if len(verdicts) == 1:
        assert chosen == []
        return
    # By default a wrong strategy, if there is one, is compared with a right one.
    first, second = chosen
    assert first != second
    assert (verdicts[first] is Verdict.RIGHT) is (set(verdicts.values()) == {Verdict.RIGHT})
    assert verdicts[second] is Verdict.RIGHT


@pytest.mark.parametrize(
    "path",
    [
        "no_page/",
        "races/no_race/",
        "races/lost_update/?right=on_conflict",
        "races/lost_update/on_conflict/2/",
        "races/lost_update/naive/1/",
        "races/lost_update/naive/2/?level=strict",
        "races/lost_update/naive/2/?schedule=1111",
        "races/lost_update/naive/2/?schedule=%00",
        "races/lost_update/naive/2/?predict=6",
        "races/lost_update/naive/2/?predict=²",
        "runs/1/",
    ],
)
def test_pages_that_do_not_exist(client: Client, recorded: dict[str, Kept], path: str) -> None:
    response = client.get(f"/lab/{path}")
    assertContains(response, "Show the races", status_code=404)
    assert b"short URL" not in response.content


def test_isolation_has_a_column_for_each_level(client: Client, recorded: dict[str, Kept]) -> None:
    page = get(client, "/lab/isolation/")
    for level in ("read committed", "repeatable read", "serializable"):
        assert page.count(f'<th scope="col">{level}</th>') == len(ISOLATED)
    assert f'<a class="count wrong" href="{NAIVE}">' in page
    assert f'<a class="count wrong" href="{NAIVE}?level=serializable">' in page
    assert f'href="{NAIVE}?level=repeatable+read">not explored</a>' in page
    assert 'name="what" value="isolation"' in page


def test_museum_shows_each_exhibit_with_its_source(
    client: Client, recorded: dict[str, Kept]
) -> None:
    page = get(client, "/lab/museum/")
    for name in MUSEUM:
        assert f'<a href="/lab/races/{name}/">{name}</a>' in page
    count = '"/lab/races/limited_use/as_found/2/"><span aria-hidden="true">✗</span> 12 / 14'
    assert count in page
    assert 'name="what" value="museum"' in page
