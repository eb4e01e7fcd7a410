"""The page of an exploration: its schedules, the steps of one of them, and the prediction."""

import pytest
from django.test import Client

from lab.conftest import NAIVE, RIGHT, Kept, get
from lab.models import RecordedSchedule, Recording

pytestmark = pytest.mark.django_db
STALE = "stale read: process 1 writes after it"


def test_an_exploration_that_was_not_run_yet(client: Client) -> None:
    page = get(client, NAIVE)
    assert "This has not been explored on this machine yet." in page
    assert 'name="what" value="lost_update/naive/2/read-committed"' in page
    assert 'class="lanes"' not in page
    assert "yet under serializable." in get(client, f"{NAIVE}?level=serializable")


def test_a_strategy_that_violates_the_invariant(client: Client, recorded: dict[str, Kept]) -> None:
    page = get(client, NAIVE)
    assert '<b class="violated">4 of 6 schedules violate the invariant</b>' in page
    assert "Schedule 2 of 6: <code>1212</code>" in page
    assert '<div class="verdict-box is-violated" id="verdict">' in page
    assert "<b>Violated: hits = 1, not 2.</b>" in page
    for mark in (STALE, "lost update: overwritten by step 4", "overwrites step 3"):
        assert f'<p class="mark">{mark}</p>' in page
    assert page.count('<a tabindex="-1" href="?schedule=') == 6
    assert page.count('class="violating"') == 3
    assert page.count('class="violating here"') == 1
    assert '<a href="?schedule=1122">previous</a>' in page
    assert '<a href="?schedule=1221">next</a>' in page
    assert '<a href="?schedule=1221">next violation</a>' in page
    assert "<code>shorturl/resolving/naive.py</code>" in page
    for step in recorded["lost_update/naive"].schedule("1212").steps:
        assert f'data-line="{step["line"]}"' in page
        assert f'<a href="#L{step["line"]}">line {step["line"]}</a>' in page
        assert f'id="L{step["line"]}"' in page


def test_a_strategy_that_holds(client: Client, recorded: dict[str, Kept]) -> None:
    page = get(client, RIGHT)
    assert '<b class="held">0 of 2 schedules violate the invariant</b>' in page
    assert "<b>The invariant holds: All are redirected, and each is counted.</b>" in page
    assert "is-violated" not in page
    assert 'class="mark"' not in page
    assert "next violation" not in page
    assert "previous" not in page


def test_the_schedule_that_is_asked_for(client: Client, recorded: dict[str, Kept]) -> None:
    page = get(client, f"{NAIVE}?schedule=1122")
    assert "Schedule 1 of 6: <code>1122</code>" in page
    assert "<b>The invariant holds: All are redirected, and each is counted.</b>" in page
    assert "is-violated" not in page
    assert page.count('class=" here"') == 1
    last = get(client, f"{NAIVE}?schedule=2211")
    assert '<a href="?schedule=2121">previous</a>' in last
    assert ">next</a>" not in last
    assert '<a href="?schedule=1212">next violation</a>' in last  # from the start again


def test_a_wait_and_an_exception_are_shown(client: Client, recorded: dict[str, Kept]) -> None:
    page = get(client, "/lab/races/lost_update/select_for_update/2/?schedule=121122")
    rows = page.split("<tbody>")[1].split("</tr>")
    assert [each.count("waits for process 1</p>") for each in rows[:4]] == [0, 1, 0, 0]
    assert [each.count('class="waiting"') for each in rows[:4]] == [0, 0, 1, 0]
    assert [each.count("resumes step 2</p>") for each in rows[:4]] == [0, 0, 0, 1]
    page = get(client, "/lab/races/toctou/check_first/2/?schedule=1212")
    assert "<p>Process 2 raises IntegrityError: duplicate key value" in page
    assert "Process 1 raises" not in page
    assert '<p class="returned error">!! ' in page


def test_a_recording_of_an_older_source_or_version(
    client: Client, recorded: dict[str, Kept]
) -> None:
    page = get(client, NAIVE)
    assert "has changed since" not in page
    assert "earlier version" not in page
    Recording.objects.update(source="of an older file")
    for schedule in RecordedSchedule.objects.filter(order="1212"):
        for step in schedule.steps:
            del step["wrote"]
        schedule.save()
    page = get(client, NAIVE)
    assert "<code>shorturl/resolving/naive.py</code> has changed since." in page
    assert "made by an earlier version: explore it again" in page
    assert 'class="mark"' not in page
    Recording.objects.update(source="")  # nobody knows
    assert "has changed since" not in get(client, NAIVE)


def test_another_isolation_level(client: Client, recorded: dict[str, Kept]) -> None:
    page = get(client, f"{NAIVE}?level=serializable")
    assert "2 processes, serializable, explored in" in page
    assert '<a href="?level=serializable&amp;schedule=1122">previous</a>' in page
    assert 'value="lost_update/naive/2/serializable"' in page
    predict = get(client, f"{NAIVE}?level=serializable&schedule=1212&predict=2")
    assert '<input type="hidden" name="level" value="serializable">' in predict
    assert "has not been explored" in get(client, f"{NAIVE}?level=repeatable+read")


def test_predict_hides_what_follows(client: Client, recorded: dict[str, Kept]) -> None:
    shown = get(client, f"{NAIVE}?schedule=1212")
    page = get(client, f"{NAIVE}?schedule=1212&predict=2")
    steps = recorded["lost_update/naive"].schedule("1212").steps
    for secret in ("<code>UPDATE", "→ 1 row", "hits = 1", "is-violated", 'class="mark"', STALE):
        assert secret in shown
        assert secret not in page
    assert page.count("<code>SELECT …") == 2
    assert page.count('<td class="state">hits = 0</td>') == 2
    assert page.count("takes its next step: ?") == len(steps) - 2
    assert "process 1 takes its next step: ?" in page
    assert 'id="step-2"' in page
    assert 'id="step-3"' not in page
    assert "Now: hits = 0." in page
    assert "two hits, counted once" in shown  # the docstring, which tells how it ends
    assert "two hits, counted once" not in page
    assert "short_url.save()" in page
    assert 'class="strip"' not in page  # which has a colour for those that violate the invariant
    assert 'id="verdict"' not in page
    assert '<input type="hidden" name="schedule" value="1212">' in page
    page = get(client, f"{NAIVE}?schedule=1212&predict=0")
    assert "SELECT" not in page.partition('class="source"')[0]
    assert "Now:" not in page
    assert page.count("takes its next step: ?") == len(steps)


def test_a_guess_reveals(client: Client, recorded: dict[str, Kept]) -> None:
    page = get(client, f"{NAIVE}?schedule=1212&guess=hits+%3D+2%3Cb%3E")
    assert "You predicted: hits = 2&lt;b&gt;. The rows contain: hits = 1." in page
    assert "Violated: hits = 1, not 2." in page
    assert "You predicted" not in get(client, f"{NAIVE}?schedule=1212")
    assert f"You predicted: {'x' * 100}." in get(client, f"{NAIVE}?guess={'x' * 101}")
