"""The lab's pages without a browser: their content and their refusals.

No test asks for a database: the pages read files.
"""

import json
import os
import re
import time
from pathlib import Path

import pytest
from django.test import Client
from django.urls import resolve
from django.utils.html import escape
from pytest_django.asserts import assertContains

from lab.conftest import NAIVE_PATH, RIGHT_PATH, get_page, get_text
from lab.pages import load_runs
from lab.races import EVERY_RACE, OPERATIONS, RACES
from lab.races.museum import MUSEUM
from lab.recordings.cells import ISOLATED
from shorturl.strategies.table import Verdict
from shorturl.tests.callers import without_tags


@pytest.fixture(autouse=True)
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the last report, which is not written yet."""
    path = tmp_path / "races.json"
    monkeypatch.setattr(load_runs, "REPORT", path)
    return path


def test_the_index_shows_a_count_for_each_strategy_of_each_race(client: Client) -> None:
    page = get_page(client, "/lab/")
    for race in RACES.values():
        assert f'href="/lab/races/{race.name}/">{race.name}' in page
    assert page.count('class="count') == sum(len(race.strategies) for race in RACES.values())
    # The violating schedules of all that are recorded, and what else a cell says.
    violate = "schedules violate the invariant"
    for path, shown in {
        NAIVE_PATH: f"✗ 12 / 14 {violate}",
        "/lab/races/toctou/check_first/2/": "⊘ 12 / 14 schedules fail loudly, with an error",
        RIGHT_PATH: "✓ 0 / 4",
        "/lab/races/crossed_locks/atomic_only/2/": "✗ 252 / 6,992",
        "/lab/races/lost_update/f_expression_full_save/2/": f"✓ 0 / 14 {violate} wrong elsewhere",
    }.items():
        _before, after = page.split(f'href="{path}">')
        assert without_tags(after).startswith(shown)
    is_open = [
        "open" in details for details in re.findall('<details class="operation"(.*?)>', page)
    ]
    assert is_open == [number < 2 for number in range(len(OPERATIONS))]
    shown = without_tags(page)
    for title, strategies, races in OPERATIONS.values():
        assert f" {title} {len(races)} races, {len(strategies)} strategies strategy " in shown
    assert " in_memory : Its statements do not race." in shown
    assert " naive wrong ✗ " in shown
    for path in ("", "isolation/", "museum/", "queue/", "load-runs/"):
        assert f'href="/lab/{path}"' in page.split("<nav")[1].split("</nav>")[0]
    assert client.post("/lab/").status_code == 405


def test_links_lead_somewhere_and_tables_and_regions_have_their_names(client: Client) -> None:
    paths = ["", "races/limited_use/", "races/toctou/check_first/2/", "queue/", "isolation/"]
    paths += ["museum/", f"{NAIVE_PATH[5:]}?predict=2", f"{NAIVE_PATH[5:]}scheduler/?taken=12"]
    for path in paths:
        page = get_page(client, f"/lab/{path}")
        assert re.findall(r'<th\b(?! scope="(?:col|row)")[^>]*>|href=""|href="#"', page) == [], path
        for address in re.findall('href="(/lab/[^"?#]*)', page):
            resolve(address)
        ids = re.findall(' id="([^"]+)"', page)
        assert {*re.findall(' (?:for|aria-describedby|aria-labelledby)="([^"]+)"', page)} <= {*ids}
        assert {*re.findall('href="#([^"]+)"', page)} <= {*ids, "main"}, path
        for region in re.findall('<div class="scroll".*?>', page):
            for attribute in ('role="region"', 'aria-label="', 'tabindex="0"'):
                assert attribute in region, path


LOAD_RUNS = "/lab/load-runs/"


def test_the_last_load_test_has_a_table_for_each_race(client: Client, report: Path) -> None:
    keys = ("script", "strategy", "operation", "lost", "of", "share", "per_second")
    runs = [
        ("lost_update", "update_returning", "resolve", 0, 4000, 0.0, 800.0),
        ("toctou", "naive", "create", 7, 70, 0.1, 300.0),
        ("lost_update", "naive", "resolve", 1234, 4936, 0.25, 987.4),
        ("lost_update", "service", "resolve", 0, 4900, 0.0, 980.0),
        ("hot_and_cold", "naive", "resolve", 99, 100, 0.99, 20.0),
    ]
    about = {"command": "make races", "date": "2001-02-03", "users": 17, "seconds": 5, "left": 0}
    rows = [dict(zip(keys, values, strict=True)) for values in runs]
    report.write_text(json.dumps({**about, "runs": rows}))
    page = get_page(client, LOAD_RUNS)
    assert "to come" not in page
    assert "Refresh" not in client.get(LOAD_RUNS)  # no run is left
    shown = without_tags(page)
    assert "The last make races , 2001-02-03: 17 users on gunicorn for 5 sec" in shown
    assert re.findall(r"<h2><a [^>]+>([^<]+)<", page) == ["Lost update", "TOCTOU"]
    lost = re.findall('<meter max="([0-9]+)" value="([0-9]+)" high="0" optimum="0" aria', page)
    assert lost == [("4936", "1234"), ("4900", "0"), ("4000", "0"), ("70", "7")]
    assert '<meter max="987.4" value="800.0" aria-label="Speed of update_returning">' in page
    # The speed, what is lost, and the schedules, of which the service's redirect has none.
    for row in ("987 1,234 of 4,936 (25.0%) ✗", "800 0 of 4,000 ✓", "980 0 of 4,900 –"):
        assert f" {row} " in shown
    assert "99 of 100" not in page  # hot_and_cold is no race of the catalogue


def test_the_page_of_load_runs_is_loaded_again_while_one_runs(client: Client, report: Path) -> None:
    run = {"script": "lost_update", "strategy": "naive", "lost": 0, "of": 9, "share": 0}
    report.write_text(json.dumps({"runs": [{**run, "per_second": 5}], "left": 1}))
    response = client.get(LOAD_RUNS)
    assert b"1 run to come." in response.content
    assert f'<a class="count wrong" href="{NAIVE_PATH}"' in response.text
    assert response["Refresh"] == "2"
    for minutes, is_running in ((1, True), (3, False)):  # then the command was killed
        written = time.time() - 60 * minutes
        os.utime(report, (written, written))
        assert ("Refresh" in client.get(LOAD_RUNS)) is is_running


@pytest.mark.parametrize("text", ["", "[]", '{"runs": [{}]}'])
def test_an_unreadable_report_is_like_no_report(client: Client, report: Path, text: str) -> None:
    report.write_text(text)
    assert "There has been no load test yet" in get_page(client, LOAD_RUNS)


def test_a_race_shows_its_counts_and_the_diff_of_two_strategies(client: Client) -> None:
    page = get_page(client, "/lab/races/lost_update/?left=naive&right=f_expression")
    shown = without_tags(page)
    assert "From shorturl/strategies/resolving/naive.py" in shown
    assert "to shorturl/strategies/resolving/f_expression.py" in shown
    # The numbers of a line on the left and on the right, its sign, and the line.
    for line in (r"\d+ - short_url\.hits \+= 1 ", r"\d+ \+ short_url\.hits = F\("):
        assert re.search(line, shown)
    signs = re.findall(r'<tr class="(\w*)">(?:<td>\d*</td>){2}<td>(.)</td>', page)
    assert {*signs} == {("", " "), ("added", "+"), ("removed", "-")}
    assert re.findall(r'<select name="(\w+)">', page) == ["left", "right"]
    assert re.search(r"\d+ \d+ def resolve", shown)
    assert re.findall(r"<option selected>(\w+)<", page) == ["naive", "f_expression"]
    assert "2 processes 3 processes" in shown
    assert f'href="{NAIVE_PATH}"' in page
    assert "✗ 630 / 636" in shown
    shown = get_text(client, "/lab/races/same_target/")
    assert "✗ 1,422 / 1,428 schedules violate the invariant ⊘ 54 loudly" in shown
    assert "violate the invariant … The difference" in shown  # too many to count


@pytest.mark.parametrize("name", EVERY_RACE)
def test_every_race_has_its_page(client: Client, name: str) -> None:
    page = get_page(client, f"/lab/races/{name}/")
    race = EVERY_RACE[name]
    assert f"<h1>{race.title}" in page
    for text in (race.story, race.situation, race.invariant):
        assert escape(text) in page
    assert ("Found in" in page) is (name in MUSEUM)
    if name in MUSEUM:
        assert escape(f"Found in {MUSEUM[name].source}. {MUSEUM[name].lesson}") in page
    # By default a wrong strategy, if there is one, is compared with a right one.
    strategies = race.strategies
    first, second = (strategies[name] for name in re.findall(r"<option selected>(\w+)<", page))
    wrong = [strategy for strategy in strategies.values() if strategy.verdict is not Verdict.RIGHT]
    assert first in wrong or not wrong
    assert first != second
    assert second.verdict is Verdict.RIGHT


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("no_page/", "The lab has no page"),
        ("races/no_race/", "There is no race 'no_race'. The nearest one is "),
        ("races/lost_update/?right=on_conflict", "no strategy 'on_conflict'; it has naive, "),
        ("races/lost_update/?left=on_conflict", "no strategy 'on_conflict'; it has naive, "),
        ("races/lost_update/on_conflict/2/", "no strategy 'on_conflict'"),  # that of another race
        ("races/lost_update/naive/1/", "lost_update takes 2 or 3 processes, not 1."),
        ("races/lost_update/naive/2/?level=strict", "serializable, not 'strict'."),
        ("races/lost_update/naive/3/?level=serializable", "with 3 processes is not recorded at"),
        ("races/toctou/naive/2/?level=serializable", "is not recorded at serializable."),
        # Process 1 has ended before.
        ("races/lost_update/naive/2/?schedule=1111", "schedule '1111'; 111222 is one."),
        ("races/lost_update/naive/2/?schedule=%00", "111222 is one."),
        (f"races/lost_update/naive/2/?schedule={'1' * 51}", f"schedule '{'1' * 50}';"),
        # Beyond the last step.
        ("races/lost_update/naive/2/?predict=6", "predict must be a number from 0 to 5, not '6'."),
        ("races/lost_update/naive/2/?predict=²", "from 0 to 5, not '²'."),
    ],
)
def test_a_wrong_address_is_a_404_that_leads_to_the_races(
    client: Client, path: str, text: str
) -> None:
    response = client.get(f"/lab/{path}")
    assertContains(response, '<a href="/lab/">Show the races</a>', status_code=404)
    assertContains(response, escape(text), status_code=404)
    assert b"short URL" not in response.content


def test_isolation_has_a_column_for_each_level(client: Client) -> None:
    page = get_page(client, "/lab/isolation/")
    for level in ("read committed", "repeatable read", "serializable"):
        assert page.count(f'<th scope="col">{level}<') == len(ISOLATED)
    for name in ISOLATED:
        assert f'<h2><a href="/lab/races/{name}/">{EVERY_RACE[name].title}<' in page
    assert f'<a class="count wrong" href="{NAIVE_PATH}">' in page
    assert f'<a class="count wrong" href="{NAIVE_PATH}?level=serializable">' in page
    assert f'<a class="count wrong" href="{NAIVE_PATH}?level=repeatable+read">' in page


def test_the_museum_shows_each_exhibit_with_its_count(client: Client) -> None:
    page = get_page(client, "/lab/museum/")
    for name, race in MUSEUM.items():
        assert f'href="/lab/races/{name}/">{race.title}' in page
        for text in (race.source, race.story, race.lesson):
            assert f">{escape(text)}<" in page
    _before, after = page.split('href="/lab/races/limited_use/as_found/2/">')
    assert without_tags(after).startswith("✗ 12 / 14")
