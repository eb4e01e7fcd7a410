"""`manage.py race`: what it prints, and how it ends."""

import json
import os
import subprocess
import sys
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.models import F, Subquery

from lab.catalogue import RACES, matrix
from lab.catalogue.museum import MUSEUM
from lab.catalogue.museum.limited_use import LimitedLink
from project.docs import ROOT
from shorturl.resolving import update_returning

pytestmark = pytest.mark.django_db(transaction=True)


def race(*arguments: str) -> str:
    output = StringIO()
    call_command("race", *arguments, stdout=output, stderr=StringIO())
    return output.getvalue()


def refused(judge: str, function: str) -> str:
    """Return what `race check` prints of a function that breaks."""
    output = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("race", "check", judge, function, stdout=output, stderr=StringIO())
    assert ended.value.code == 1
    return output.getvalue()


def test_list_names_every_race_and_what_must_hold() -> None:
    printed = race("list")
    for each in RACES.values():
        assert each.name in printed
        assert each.must_hold in printed
    assert printed.count("A function of your own: ") == len(RACES) + len(MUSEUM)


def test_list_ends_with_the_museum_and_its_sources() -> None:
    races, heading, museum = race("list").partition("The museum:")
    assert heading
    for exhibit in MUSEUM.values():
        assert exhibit.name not in races
        for text in (exhibit.name, exhibit.situation, exhibit.must_hold):
            assert text in museum
        assert f"Found in: {exhibit.source}" in museum
        assert exhibit.signature in museum


def test_the_museum_is_explored_and_shown_like_the_other_races() -> None:
    printed = race("explore", "null_in_a_unique_key")
    assert (
        "as_found: 18 of 20 schedules violate the invariant, for example 112122: 2 links are called"
        in printed
    )
    assert "mended: 0 of 2 schedules violate the invariant" in printed
    printed = race("show", "limited_use", "as_found")
    assert (
        "limited_use × as_found: 4 of 6 schedules violate the invariant; the shortest: 1212"
        in printed
    )
    assert "gift: 2 of 1 uses" in printed
    assert printed.rstrip().endswith("Violated: redeemed 2 times, not 1.")


def test_the_museum_is_explored_by_name_only() -> None:
    with pytest.raises(CommandError, match="No race has this strategy"):
        race("explore", "--strategy", "as_found")


def test_check_judges_a_function_by_a_race_of_the_museum() -> None:
    module = "lab.catalogue.museum.limited_use"
    assert "holds. 0 of 2 schedules violate the invariant" in race(
        "check", "limited_use", f"{module}:mended"
    )
    printed = refused("limited_use", f"{module}:as_found")
    assert "4 of 6 schedules violate the invariant" in printed
    assert "Violated: redeemed 2 times, not 1." in printed


def redeem_what_it_has_found(key: str) -> bool:
    found = LimitedLink.objects.filter(key=key, uses__lt=F("max_uses")).values("pk")[:1]
    return LimitedLink.objects.filter(pk=Subquery(found)).update(uses=F("uses") + 1) == 1


def test_check_lets_statements_overlap() -> None:
    """One statement looks and writes. The other one's COMMIT can come between."""
    printed = refused("limited_use", f"{__name__}:redeem_what_it_has_found")
    assert (
        "2 of 4 schedules violate the invariant with COMMIT as a step of its own. The shortest, 12"
        in printed
    )
    assert "… waits for process 1" in printed
    assert "COMMIT" in printed
    mended = race("check", "limited_use", "lab.catalogue.museum.limited_use:mended")
    assert (
        "0 of 2 schedules violate the invariant, and 0 of 4 with COMMIT as a step of its own."
        in mended
    )


def nobody_may(key: str) -> bool:
    return False


def test_check_sees_that_nobody_may_follow_the_link() -> None:
    assert "redeemed 0 times, not 1" in refused("limited_use", f"{__name__}:nobody_may")


def test_explore_counts_and_names_the_shortest() -> None:
    printed = race("explore", "lost_update", "--strategy", "naive")
    assert (
        "naive: 4 of 6 schedules violate the invariant, for example 1212: hits = 1, not 2"
        in printed
    )
    printed = race("explore", "lost_update", "--strategy", "naive", "--processes", "3")
    assert "naive: 84 of 90 schedules violate the invariant" in printed


def test_explore_says_when_the_search_was_cut() -> None:
    printed = race("explore", "lost_update", "--strategy", "f_expression", "--max-schedules", "2")
    assert "0 of the first 2 schedules violate the invariant; the search was tr" in printed
    assert "truncated: max_schedules=2 reached" in printed


def test_show_draws_the_shortest_that_breaks_in_columns() -> None:
    printed = race("show", "lost_update", "naive")
    assert "the shortest: 1212" in printed
    assert "process 1" in printed
    assert "process 2" in printed
    assert printed.rstrip().endswith("Violated: hits = 1, not 2.")


def test_show_draws_the_schedule_that_is_asked_for() -> None:
    printed = race("show", "lost_update", "naive", "--schedule", "1122")
    assert "schedule 1122" in printed
    assert printed.rstrip().endswith("Holds: All are redirected, and each is counted.")


def test_show_draws_a_wait() -> None:
    printed = race("show", "lost_update", "select_for_update", "--schedule", "121122")
    assert "waits for process 1" in printed


def test_matrix_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    two = {name: RACES[name] for name in ("toctou", "lost_update")}
    monkeypatch.setattr(matrix, "RACES", two)
    cells = json.loads(race("matrix", "--json"))
    naive: dict[str, Any] = next(c for c in cells if c["strategy"] == "naive")
    assert naive == {
        "race": "toctou",
        "strategy": "naive",
        "processes": 2,
        "schedules": 2,
        "violating": 2,
        "counterexample": "12",
        "complete": True,
    }
    assert {cell["race"] for cell in cells} == {"toctou", "lost_update"}


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_drawing_is_no_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    widest = []
    for columns in ("80", "300"):
        monkeypatch.setenv("COLUMNS", columns)
        terminal = Terminal()
        call_command("race", "show", "lost_update", "naive", stdout=terminal, stderr=StringIO())
        widest.append(max(map(len, terminal.getvalue().splitlines())))
    assert widest[0] <= 80 < widest[1]


def test_check_judges_a_function() -> None:
    assert "holds. 0 of 2 schedules violate the invariant" in race(
        "check", "lost_update", "shorturl.resolving.update_returning:resolve"
    )
    printed = refused("lost_update", "shorturl.resolving.naive:resolve")
    assert "4 of 6 schedules violate the invariant. The shortest, 1212:" in printed
    assert "Violated: hits = 1, not 2." in printed


def without_a_redirect(key: str) -> None:
    update_returning.resolve(key)


def test_check_sees_who_is_not_redirected() -> None:
    printed = refused("lost_update", f"{__name__}:without_a_redirect")
    assert "process 1 is redirected to None" in printed


def test_explore_leaves_out_what_cannot_take_part() -> None:
    printed = race("explore", "--strategy", "update_returning")
    assert "lost_update" in printed
    assert "toctou" not in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explore", "nothing"], "there is no race 'nothing'; there are collision, toctou"),
        (["explore", "toctou", "--strategy", "magic"], "'magic' takes no part in toctou"),
        (["explore", "--strategy", "magic"], "No race has this strategy"),
        (["matrix", "--processes", "4"], "There is a matrix for 1, 2, 3 processes"),
        (
            ["check", "toctou", "shorturl.creating.permuted_sequence:create"],
            "did not use the candidate",
        ),
        (["explore", "toctou", "--processes", "1"], "toctou takes 2 to 9 processes, not 1"),
        (["explore", "collision", "--processes", "2"], "collision takes 1 process, not 2"),
        (["explore", "toctou", "--max-schedules", "0"], "'0' is no whole number from 1 up"),
        (["show", "lost_update", "naive", "--schedule", "12"], "is over before"),
        (["show", "lost_update", "naive", "--schedule", "x"], "cannot be taken by process x"),
        (["check", "lost_update", "nothing:here"], "cannot be imported"),
        (["check", "lost_update", "shorturl.keys:ALPHABET"], "is not a function: its type is str"),
        (
            ["check", "toctou", "shorturl.resolving.naive:resolve"],
            "does not work, with or without a race: process 1 raises TypeError: resolve() got an "
            "unexpected keyword argument 'keys'",
        ),
        (
            ["check", "toctou", "shorturl.resolving.naive:resolve"],
            "It is called like create(target",
        ),
        (["dance"], "invalid choice: 'dance'"),
    ],
)
def test_bad_use_is_told_what_was_wrong(arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError) as raised:
        race(*arguments)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["check", "lost_update", "shorturl.resolving.update_returning:resolve"], 0),
        (["check", "lost_update", "shorturl.resolving.naive:resolve"], 1),
        (["check", "lost_update", "shorturl.resolving.naive:nothing"], 2),
        (["check", "nothing", "shorturl.resolving.naive:resolve"], 2),
        (["explore", "toctou", "--strategy", "magic"], 2),
    ],
)
def test_the_exit_code(arguments: list[str], code: int) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "race", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_whoever_reads_may_stop_reading() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "manage.py", "race", "list"],
        cwd=ROOT,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")
