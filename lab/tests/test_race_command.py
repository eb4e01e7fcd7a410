"""`manage.py race` and `manage.py strategies`: what they print, and how they end."""

import json
import re
from io import StringIO
from unittest.mock import Mock

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection

from lab.conftest import run_race
from lab.management.commands import race
from lab.recordings.database import temporary_database
from shorturl.models import ShortUrl

pytestmark = pytest.mark.usefixtures("in_this_database")


def test_list_prints_the_counts_as_text_as_markdown_and_as_json() -> None:
    text, markdown = run_race("list"), run_race("list", "--markdown", "--processes", "3")
    assert "– takes no part, and … has too many schedules to count" in text
    assert re.search(r"^naive +⊘ 1 / 1 +⊘ 4 / 4 ", text, re.MULTILINE)
    assert re.search(r"^on_conflict +✓ 0 / 1 +✓ 0 / 4 ", text, re.MULTILINE)
    assert "\n| advisory_lock | … | 0 / 31,770 |\n" in markdown
    assert "| f_expression | 0 / 636 | 0 / 212 | **306 / 312** |" in markdown
    cells = json.loads(run_race("list", "--json"))
    cell = {"race": "toctou", "strategy": "naive", "violating": 4, "schedules": 4, "refused": 4}
    assert cell in cells
    assert re.search(r"^naive .*✗ 12 / 14 ", text, re.MULTILINE)
    text, cells = run_race("list", "--processes", "3"), run_race("list", "--json", "--processes=3")
    assert re.search(r"^get_or_create +✗ 1,422 / 1,428, ⊘ 54 ", text, re.MULTILINE)
    assert re.search(r"^serializable +… +– +…$", text, re.MULTILINE)
    unknown = dict.fromkeys(("violating", "schedules", "refused"))  # too many to count them all
    assert {"race": "toctou", "strategy": "advisory_lock", **unknown} in json.loads(cells)
    for printed in (text, markdown):
        assert "in_memory: Its statements do not race." in printed
        assert "rolling_up" not in printed  # two processes alone


def test_explore_says_when_it_was_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run_race("explore", "lost_update", "f_expression", "--max-schedules", "2")
    assert "naive" not in printed
    assert "0 of the first 2 schedules violate the invariant. The search was tr" in printed
    assert "truncated: max_schedules=2 reached" in printed
    printed = run_race("explore", "collision")
    assert "naive: 1 of 1 schedules violate the invariant, for example 1: " in printed
    assert re.search(r"on_conflict: 0 of 1 schedules violate the invariant$", printed, re.MULTILINE)
    assert "Note: Its statements do not race." in run_race("explore", "last_use", "in_memory")
    monkeypatch.setattr(race, "MAX_SECONDS", 0.001)
    printed = run_race("explore", "last_use", "naive", "--processes", "3")
    assert "last_use, 3 processes. Invariant: " in printed
    assert "max_seconds=0.001" in printed


def test_show_draws_the_schedule_that_is_asked_for() -> None:
    printed = run_race("show", "lost_update", "select_for_update", "--schedule", "121122")
    assert "schedule 121122" in printed
    assert "Each digit of a schedule is the process that takes the next step." in printed
    assert "waits for process 1" in printed
    assert printed.rstrip().endswith("Holds: All are redirected, and every hit is counted.")
    printed = run_race("show", "lost_update", "update_returning", "--processes", "3")
    title = r"^lost_update × update_returning: 0 of 30 schedules .*; the first: 112233$"
    assert re.search(title, printed, re.MULTILINE)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("columns", "least", "most"), [("80", 60, 80), ("300", 81, 300)])
def test_a_drawing_fits_the_terminal_and_uses_its_width(
    monkeypatch: pytest.MonkeyPatch, columns: str, least: int, most: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    terminal = Terminal()
    call_command("race", "show", "lost_update", "naive", stdout=terminal, stderr=StringIO())
    title, *lines = terminal.getvalue().splitlines()
    assert least <= max(map(len, lines)) <= most
    assert re.search(r"12 of 14 schedules violate the invariant; one of them: \d{6}$", title)
    assert "Violated: hits = 1, not 2." in lines


def test_strategies_are_markdown_but_plain_on_a_terminal() -> None:
    printed = StringIO(), Terminal()
    for output in printed:
        call_command("strategies", "creating", stdout=output)
    markdown, plain = (output.getvalue() for output in printed)
    assert "| [`naive`](shorturl/strategies/creating/naive.py) | ⛔ wrong | ignores" in markdown
    assert re.search(r"^naive +wrong +ignores collisions +⛔ 1$", plain, re.MULTILINE)


def test_strategies_refuses_an_unknown_operation() -> None:
    with pytest.raises(CommandError, match="no operation 'nope'; there are creating, resolving"):
        call_command("strategies", "creating", "nope")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explore", "toctuo"], "There is no race 'toctuo'. The nearest one is toctou; `manage."),
        (["explore", "toctou", "magic"], "toctou has no strategy 'magic'"),
        (["explore", "toctou", "--processes", "4"], "toctou takes 2 or 3 processes, not 4"),
        (["list", "--processes", "4"], "A race takes 1 or 2 or 3 processes, not 4"),
        (["explore", "collision", "--processes", "2"], "collision takes 1 process, not 2"),
        (["explore", "toctou", "--max-schedules", "0"], "'0' is not a whole number from 1 up"),
        (["show", "lost_update", "naive", "--schedule", "12"], "is over before"),
        (["record", "toctou", "magic"], "toctou has no strategy 'magic'"),
        ([], "required: action"),
    ],
)
def test_wrong_use_has_a_message_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        race.Command().run_from_argv(["manage.py", "race", *arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_an_interruption_and_an_outage_have_exit_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, code in ((KeyboardInterrupt(), 130), (OperationalError("gone"), 2)):
        monkeypatch.setattr(race, "temporary_database", Mock(side_effect=error))
        with pytest.raises(CommandError, match=r"^(Interrupted|Database error)") as ended:
            run_race("explore", "collision")
        assert ended.value.returncode == code


def test_races_run_in_a_database_of_their_own_that_is_dropped() -> None:
    ShortUrl.objects.create(key="mine", target_url="https://example.com/")
    own = connection.settings_dict["NAME"]
    with temporary_database():
        name = connection.settings_dict["NAME"]
        assert name != own
        assert not ShortUrl.objects.exists()
    assert connection.settings_dict["NAME"] == own
    assert ShortUrl.objects.get().key == "mine"
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_database WHERE datname = %s", [name])
        assert cursor.fetchone() == (0,)
