"""The page of an exploration: its schedules, the steps of one schedule, and the prediction."""

import re
from xml.etree import ElementTree

import pytest
from django.test import Client
from django.utils.html import escape

from lab.conftest import (
    NAIVE_PATH,
    RIGHT_PATH,
    find_schedule,
    get_page,
    get_text,
    list_schedules,
    read_recorded,
)
from lab.pages import exploration_views
from lab.pages.schedules import group_by_outcome
from lab.recordings.recording import ScheduleEnd
from pginterleave.picture.cells import judge_end
from shorturl.tests.callers import without_tags

SVG = "{http://www.w3.org/2000/svg}"


def test_a_wrong_strategy_shows_its_counterexample_with_conflicts_and_source(
    client: Client,
) -> None:
    recording = read_recorded("lost_update/naive")
    page = get_page(client, NAIVE_PATH)
    shown_text = without_tags(page)
    shown = find_schedule(recording, recording.counterexample)
    assert '<p class="verdict-box wrong" id="verdict">' in page
    assert "Violated: hits = 1, not 2" in page
    count = f"{recording.count.violating} of {recording.count.schedules}"
    assert f"{count} schedules violate the invariant" in page
    orders = [end.order for end in recording.ends]
    number = orders.index(shown.order) + 1
    assert f"Schedule {shown.order} , {number} of {len(orders)}" in shown_text
    for mark in ("lost update: overwritten by step", "overwrites step", "rests on the stale read"):
        assert f'<p class="mark">{mark}' in page
    assert page.count('class="conflict stale"') == 2  # in a wide and in a narrow picture
    assert page.count('class="conflict lost"') == 2
    assert "shorturl/strategies/resolving/naive.py" in shown_text
    assert " docstring " in shown_text
    assert "<title>Lost update with naive · " in page
    assert "2 processes, recorded by manage.py race record lost_update naive ." in shown_text
    for step in shown.steps:
        assert f'data-line="{step["line"]}"' in page
        assert f'<a href="#L{step["line"]}">line {step["line"]}' in page
        assert page.count(f'id="L{step["line"]}"') == 1


def test_the_source_begins_behind_the_imports_or_at_the_function(client: Client) -> None:
    for path in (NAIVE_PATH, f"{NAIVE_PATH}scheduler/"):
        source = get_page(client, path).split('aria-label="Source of naive"')[1]
        assert without_tags(source.partition(">")[2]).startswith("8 def resolve(")
    # A file of the museum has several strategies.
    page = get_page(client, "/lab/races/limited_use/as_found/2/")
    functions = re.findall(r"def \w+", page.split('aria-label="Source of as_found"')[1])
    assert functions == ["def as_found"]
    # A docstring of the file is no import.
    page = get_page(client, "/lab/races/last_visit/combined/2/")
    source = page.split('aria-label="Source of combined"')[1].partition(">")[2]
    assert without_tags(source).startswith("1 &quot;&quot;&quot;The strat")


def test_what_a_strategy_leaves_open_is_on_its_page(client: Client) -> None:
    path = "/lab/races/lost_update/in_memory/2/"
    page = get_page(client, path)
    assert "Note: Its statements do not race." in without_tags(page)
    source = page.split('aria-label="Source of in_memory"')[1]
    assert [name for name in ("VERDICT", "SHOWS", "STEP", "NOTE") if name in source] == []


@pytest.mark.parametrize(
    ("cell", "order", "colour"),
    [("lost_update/naive", "121122", "#b3261e"), ("toctou/check_first", "12112", "#1d4f91")],
)
def test_a_picture_is_saved_as_a_file_that_needs_no_other(
    client: Client, cell: str, order: str, colour: str
) -> None:
    page = get_page(client, f"/lab/races/{cell}/2/?schedule={order}")
    path = f"/lab/races/{cell}/2/picture.svg?schedule={order}"
    assert f'<a href="{path}" download>' in page
    response = client.get(path)
    name = f"{cell.replace('/', '-')}-{order}.svg"
    assert response["Content-Disposition"] == f'attachment; filename="{name}"'
    assert response["Content-Type"] == "image/svg+xml"
    texts = [text.text for text in ElementTree.fromstring(response.content).iter(f"{SVG}text")]
    assert [text for text in texts if f">{escape(text)}<" not in page] == []
    assert "process 1" in texts
    (style,) = ElementTree.fromstring(response.content).iter(f"{SVG}style")
    css = style.text or ""
    assert f"fill: {colour};" in css.split(".picture text.verdict")[1]
    assert "var(" not in css
    assert "@media" not in css


def test_a_cell_with_too_many_schedules_claims_no_count(client: Client) -> None:
    text = get_text(client, "/lab/races/toctou/advisory_lock/3/")
    assert "More than 100 schedules are not counted; recorded are 100, those" in text


def test_all_schedules_are_grouped_by_outcome(client: Client) -> None:
    recording = read_recorded("lost_update/naive")
    page = get_page(client, NAIVE_PATH).split('aria-label="Schedules"')[1].split("<nav")[0]
    violating, holding = page.split("<div")[1:3]
    assert f"<b>{recording.count.violating} <span" in violating
    assert "hits = 1, not 2" in violating
    assert "the invariant holds" in holding
    for schedule in list_schedules(recording):
        link = f'<a href="?schedule={schedule.order}"'
        assert link in (violating if schedule.violation else holding)
        assert link not in (holding if schedule.violation else violating)
    assert f'"?schedule={recording.counterexample}" aria-current="true">' in page
    assert page.count('aria-current="true"') == 1
    page = get_page(client, NAIVE_PATH.replace("2", "3"))
    listed = re.findall(r'<a href="\?schedule=(\w+)"(?: aria-current="true")?>\1</a>', page)
    assert sorted(listed) == [end.order for end in read_recorded("lost_update/naive/3").ends]


def test_many_schedules_are_listed_in_part() -> None:
    holds, lost = (judge_end(violation, raises=False) for violation in ("", "lost"))
    # 200 orders of 17 digits, of which every third violates.
    ends = [ScheduleEnd(f"{number:017b}", holds if number % 3 else lost) for number in range(200)]
    current = ends[-1]  # the schedule that the page shows
    groups = group_by_outcome(ends, current.order)
    assert [group.verdict for group in groups] == [lost, holds]
    for group in groups:
        shown = sorted([*group.listed, *group.more])
        assert shown == [end.order for end in ends if end.verdict == group.verdict]
        # In one line of 140: the outcome, five of 20 with their frames, and the button for more.
        assert len(group.listed) == 5
        assert (current.order in group.listed) is (group.verdict == current.verdict)


def test_a_right_strategy_shows_no_violation(client: Client) -> None:
    page = get_page(client, RIGHT_PATH)
    assert "0 of" in page
    assert "The invariant holds" in page
    for sign in ("box wrong", 'class="mark"', 'class="conflict', "next violation", "previous"):
        assert sign not in page


def test_the_address_chooses_the_schedule_and_links_lead_to_others(client: Client) -> None:
    schedules = list_schedules(read_recorded("lost_update/naive"))
    orders = [schedule.order for schedule in schedules]
    page = get_page(client, f"{NAIVE_PATH}?schedule={orders[0]}")
    assert f'href="?schedule={orders[1]}">next<' in page
    assert ">previous<" not in page
    shown = without_tags(page)
    assert f"Schedule {orders[0]} , 1 of {len(orders)}" in shown
    assert "The invariant holds" in shown
    page = get_page(client, f"{NAIVE_PATH}?schedule={orders[-1]}")
    assert f'href="?schedule={orders[-2]}">previous' in page
    assert ">next<" not in page
    # After the last schedule comes the first one again.
    violation = next(schedule for schedule in schedules if schedule.violation)
    assert f'href="?schedule={violation.order}">next violation' in page


def test_a_wait_is_shown_from_its_begin_to_its_end(client: Client) -> None:
    page = get_page(client, "/lab/races/lost_update/select_for_update/2/?schedule=121122")
    rows = page.split("<tbody>")[1].split("<tr")[1:]
    assert [row.count("waits for process 1<") for row in rows[:4]] == [0, 1, 0, 0]
    assert [row.count('class="waiting"') for row in rows[:4]] == [0, 0, 1, 0]
    assert [row.count("resumes step 2<") for row in rows[:4]] == [0, 0, 0, 1]


def test_an_exception_is_shown_with_its_process(client: Client) -> None:
    page = get_page(client, "/lab/races/toctou/check_first/2/?schedule=12112")
    assert "Process 2 raises IntegrityError: duplicate key value" in page
    assert "Process 1 raises" not in page
    assert " raises " not in get_page(client, "/lab/races/toctou/check_first/2/?predict=2")
    assert '<p class="returned error">!! ' in page


def test_links_and_the_form_keep_the_isolation_level(client: Client) -> None:
    recording = read_recorded("lost_update/naive/2/serializable")
    page = get_page(client, f"{NAIVE_PATH}?level=serializable")
    assert "2 processes, serializable, recorded by" in page
    for schedule in list_schedules(recording):
        assert f'<a href="?level=serializable&amp;schedule={schedule.order}"' in page
    order = recording.counterexample
    for end in (f'/picture.svg?level=serializable&amp;schedule={order}"', "/scheduler/?level="):
        assert end in page.replace("/2/", "/")
    file = client.get(f"{NAIVE_PATH}picture.svg?level=serializable&schedule={order}")
    assert f"Lost update with naive, schedule {order}" in file.text
    assert "raises OperationalError" in file.text
    predict = get_page(client, f"{NAIVE_PATH}?level=serializable&schedule={order}&predict=2")
    assert '<input type="hidden" name="level" value="serializable">' in predict


def test_predict_hides_what_follows(client: Client) -> None:
    path = f"{NAIVE_PATH}?schedule=121122"
    whole = get_page(client, path)
    page = get_page(client, f"{path}&predict=2")
    # The list of schedules and the docstring reveal the result, too.
    secrets = ["UPDATE", "→ 1 row", "hits = 1", "box wrong", 'class="mark"', "stale read"]
    secrets += ["two hits, counted once", 'class="schedules"', 'id="verdict"', 'id="step-3"']
    for secret in secrets:
        assert secret in whole
        assert secret not in page
    assert page.count("<code>SELECT …") == 2
    assert page.count('<td class="state">hits = 0<') == 2
    assert page.count("takes its next step: ?") == 4  # of six
    assert page.count(">?<") == 2 * 4  # in both pictures
    assert "Now: hits = 0." in page
    assert '<input id="guess" name="guess" maxlength="100"' in page
    assert '<details class="as-table">' in page  # closed: its SQL gives the answer away
    assert "short_url.save()" in page
    assert '<input type="hidden" name="schedule" value="121122">' in page
    for predict, hidden in ((0, 6), (5, 1)):
        page = get_page(client, f"{path}&predict={predict}")
        assert page.count("takes its next step: ?") == hidden
        assert ("SELECT" in page) is (predict > 0)
        assert "two hits, counted once" not in page


def test_a_prediction_reveals_the_result_and_is_cut_to_100_characters(client: Client) -> None:
    page = get_page(client, f"{NAIVE_PATH}?schedule=121122&guess=hits+%3D+2%3Cb%3E")
    assert "You predicted: hits = 2&lt;b&gt;. The rows contain: hits = 1." in page
    assert "Violated: hits = 1, not 2" in page
    assert "You predicted" not in get_page(client, f"{NAIVE_PATH}?schedule=121122")
    assert f"You predicted: {'x' * 100}." in get_page(client, f"{NAIVE_PATH}?guess={'x' * 101}")


def test_the_legend_explains_what_the_picture_has(client: Client) -> None:
    """A read has no transaction and no lock; an insert's lock has no mode, unlike a row lock."""
    page = get_page(client, f"{NAIVE_PATH}scheduler/?taken=1")
    assert "green frame" not in page
    assert "purple bar" not in page
    legend = "A green frame is a transaction. A purple bar is a lock that it holds"
    assert f"{legend}." in get_page(client, "/lab/races/toctou/check_first/2/")
    assert f"{legend}," in get_page(client, RIGHT_PATH)


def test_a_strategy_that_has_changed_since_is_named_with_the_command(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    notice = "shorturl/strategies/resolving/naive.py has changed since this was recorded"
    paths = ("/lab/", NAIVE_PATH, f"{NAIVE_PATH}scheduler/")
    queue = "select_for_update.py has changed since this was recorded"
    assert queue not in get_text(client, "/lab/queue/")
    for path in paths:
        assert notice not in get_text(client, path)
    monkeypatch.setattr(exploration_views, "hash_source", lambda _: "of another source")
    for path in paths:
        page = get_page(client, path)
        assert notice in without_tags(page)
        assert "manage.py race record lost_update naive" in page
        assert "<svg" in page
    assert queue in get_text(client, "/lab/queue/")
