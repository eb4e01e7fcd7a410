"""`manage.py race` and `manage.py strategies`: what they print, and how they end."""

import json
import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from unittest.mock import Mock

import pytest
from django.core.management import CommandError, call_command

from lab.conftest import race
from lab.exploring.jobs import job_named
from lab.management.commands.race import Command
from lab.races import EVERY_RACE, as_if_serial, counts
from lab.races.museum import MUSEUM
from project.docs import ROOT

pytestmark = pytest.mark.django_db(transaction=True)


def test_list_names_every_race_and_ends_with_the_museum() -> None:
    races, heading, museum = race("list").partition("The museum:")
    assert heading
    for name, each in EVERY_RACE.items():
        listed = museum if name in MUSEUM else races
        for text in (name, each.situation, each.must_hold, each.signature):
            assert text in listed
    for exhibit in MUSEUM.values():
        assert f"Found in: {exhibit.source}" in museum
        assert exhibit.name not in races


def test_explore_leaves_out_other_races_and_says_when_it_was_truncated() -> None:
    printed = race("explore", "--processes", "1", "--max-schedules", "1")
    assert "collision, 1 process" in printed
    assert "toctou" not in printed  # takes two or more
    printed = race("explore", "lost_update", "f_expression", "--max-schedules", "2")
    assert "naive" not in printed
    assert "0 of the first 2 schedules violate the invariant. The search was tr" in printed
    assert "truncated: max_schedules=2 reached" in printed


def test_show_draws_the_schedule_that_is_asked_for() -> None:
    printed = race("show", "lost_update", "select_for_update", "--schedule", "121122")
    assert "schedule 121122" in printed
    assert "Each digit of a schedule is the process that takes the next step." in printed
    assert "waits for process 1" in printed
    assert printed.rstrip().endswith("Holds: All are redirected, and every hit is counted.")


def test_counts_are_explored_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of other races stay, and one with too many schedules is left out."""
    file, known = tmp_path / "counts.json", dict(counts.COUNTS)
    monkeypatch.setattr(counts, "FILE", file)
    monkeypatch.setattr(counts, "COUNTS", known)
    known["collision/naive/1/read-committed"] = counts.Count(0, 7, 0)
    race("counts", "collision")
    assert counts.read() == {**known, "collision/naive/1/read-committed": counts.Count(1, 1, 1)}
    monkeypatch.setattr(counts, "explore", lambda _: Mock(complete=False))
    race("counts", "collision")
    assert not {name for name in counts.read() if name.startswith("collision/")}


def test_matrix_prints_the_counts_in_three_forms() -> None:
    text, markdown = race("matrix"), race("matrix", "--markdown", "--processes", "3")
    assert re.search(r"^naive +⊘ 1 / 1 +⊘ 4 / 4 ", text, re.MULTILINE)
    assert re.search(r"^on_conflict +✓ 0 / 1 +✓ 0 / 4 ", text, re.MULTILINE)
    assert "\n| advisory_lock | … | 0 / 31,770 |\n" in markdown
    assert "| f_expression | 0 / 636 | 0 / 212 | **306 / 312** |" in markdown
    cell = {"race": "toctou", "strategy": "naive", "schedules": 4, "violating": 4, "refused": 4}
    assert cell in json.loads(race("matrix", "--json"))


def test_serial_names_the_verdicts_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [
        ("lost_update", "naive"),
        ("toctou", "get_or_create"),
        ("two_workers", "skip_locked"),
        ("given_back", "conditional_update"),
    ]
    monkeypatch.setattr(as_if_serial, "counted", lambda: [job_named(*each, "2") for each in pairs])
    silent, accused, last = race("serial").splitlines()
    assert silent == "toctou × get_or_create is right"  # it is wrong alone, too
    assert accused.startswith("given_back × conditional_update is wrong: process 1 returned id =")
    assert last == (
        "Without an invariant, 1 of 2 wrong pairs of race and strategy are called wrong, and 1 of 2"
        " right ones are called right."
    )


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_drawing_is_no_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    widest = []
    for columns in ("80", "300"):
        monkeypatch.setenv("COLUMNS", columns)
        terminal = Terminal()
        call_command("race", "show", "lost_update", "naive", stdout=terminal, stderr=StringIO())
        _title, *drawn = terminal.getvalue().splitlines()
        widest.append(max(map(len, drawn)))
    assert widest[0] <= 80 < widest[1]


def test_strategies_are_markdown_but_plain_on_a_terminal() -> None:
    printed = StringIO(), Terminal()
    for output in printed:
        call_command("strategies", "creating", stdout=output)
    markdown, plain = (output.getvalue() for output in printed)
    assert "| [`naive`](shorturl/strategies/creating/naive.py) | ⛔ wrong | ignores" in markdown
    assert re.search(r"^naive +wrong +ignores collisions +⛔ 1$", plain, re.MULTILINE)
    with pytest.raises(CommandError, match="no operation 'nope'; there are creating, resolving"):
        call_command("strategies", "creating", "nope")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explore", "toctuo"], "There is no race 'toctuo'. The nearest one is toctou; `manage."),
        (["explore", "toctou", "magic"], "toctou has no strategy 'magic'"),
        (["explore", "--processes", "4"], "No race takes 4 processes"),
        (["matrix", "--processes", "4"], "invalid choice: 4 (choose from 1, 2, 3)"),
        (["explore", "toctou", "--processes", "4"], "toctou takes 2 or 3 processes, not 4"),
        (["show", "lost_update", "naive", "--processes", "7"], "takes 2 or 3 processes, not 7"),
        (["explore", "collision", "--processes", "2"], "collision takes 1 process, not 2"),
        (["explore", "toctou", "--max-schedules", "0"], "'0' is not a whole number from 1 up"),
        (["show", "lost_update", "naive", "--schedule", "12"], "is over before"),
        ([], "required: list | explore | show | counts | matrix"),
    ],
)
def test_wrong_use_has_a_message(arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError) as raised:
        race(*arguments)
    assert message in str(raised.value)


def test_wrong_arguments_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", "race", "show", "nosuch", "naive"])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("manage.py race show: argument race: There is no race 'nosuch'. The n")


def test_a_reader_of_its_output_may_stop() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "manage.py", "race", "list"]
    done = subprocess.run(
        command, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")
