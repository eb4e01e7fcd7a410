"""WORKSHOP.md names commands, pages and files that exist, and its minutes add up."""

import re
import shlex
import subprocess
import sys
from io import StringIO
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.management import (
    call_command,
    get_commands,
    load_command_class,
)
from django.db import connection
from django.test import Client
from django.urls import resolve

from lab.catalogue import RACES
from lab.catalogue.museum import MUSEUM
from lab.workshop.exercises import EXERCISES
from project.docs import ROOT

TEXT = (ROOT / "WORKSHOP.md").read_text()
SERVICE = "http://127.0.0.1:8000"
ADDRESSES = sorted(set(re.findall(rf"{SERVICE}(/[^\s>)`]*)", TEXT)))

SHOWN = re.compile(r"^ *```sh\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`((?:\.venv/bin/|make )[^`]+)`")
LINES = [line.strip() for block in SHOWN.findall(TEXT) for line in block.splitlines()]
COMMANDS = sorted({*LINES, *NAMED.findall(TEXT)})
MANAGED = [line.split("manage.py ")[1] for line in COMMANDS if "manage.py " in line]
LOADED = [line for line in COMMANDS if line.startswith(".venv/bin/locust ")]

TABLE = re.compile(r"^## (\S+) minutes\n\n\| minutes .*\n\| -.*\n((?:\|.*\n)+)", re.MULTILINE)
SCHEDULES = {
    title: re.findall(r"^\| (\d+) \| ([^|]+) \|", rows, re.MULTILINE)
    for title, rows in TABLE.findall(TEXT)
}
PARTS = re.findall(r"^### (.+) \((\d+) minutes\)$", TEXT, re.MULTILINE)


@pytest.mark.parametrize(("title", "minutes"), [("Ninety", 90), ("Forty-five", 45)])
def test_the_minutes_add_up(title: str, minutes: int) -> None:
    assert sum(int(each) for each, _ in SCHEDULES[title]) == minutes


def test_the_parts_are_those_of_the_schedules() -> None:
    assert [(name, minutes) for minutes, name in SCHEDULES["Ninety"]] == PARTS
    names = [name for name, _ in PARTS]
    shorter = [name for _, name in SCHEDULES["Forty-five"]]
    assert shorter == [name for name in names if name in shorter]


def test_each_part_asks_and_points_at_something() -> None:
    for part in re.split(r"^### ", TEXT, flags=re.MULTILINE)[1:]:
        name = part.splitlines()[0]
        assert "**Ask:**" in part or name.startswith("Exercises"), name
        assert "**Point at" in part, name


def test_every_kind_of_command_is_known() -> None:
    """So that none escapes the tests below."""
    made = [line for line in COMMANDS if re.fullmatch("make [a-z]+", line)]
    assert (
        sorted([*made, *LOADED, *(line for line in COMMANDS if "manage.py " in line)]) == COMMANDS
    )
    assert len(MANAGED) > 5
    assert LOADED
    assert {"make run", "make races"} <= set(made)


@pytest.mark.parametrize("command", MANAGED)
def test_a_command_can_be_given(command: str) -> None:
    """Its arguments are taken; where it names the student's file, the solution stands in."""
    name, *arguments = shlex.split(command)
    mine = re.compile(r"^exercises\.(\w+):")
    arguments = [mine.sub(r"lab.workshop.solutions.\1:", each) for each in arguments]
    found = load_command_class(str(get_commands()[name]), name)
    found.create_parser("manage.py", name).parse_args(arguments)


@pytest.mark.parametrize("command", LOADED)
def test_a_load_test_has_its_file_and_its_options(command: str) -> None:
    """Which docs/load-tests.md shows too, and whose tests run it."""
    words = shlex.split(command)
    file = words[words.index("-f") + 1]
    assert (ROOT / file).exists()
    assert set(words[1:]) <= {"-f", file, "--host", SERVICE, "--headless", "--strategy", "naive"}


@pytest.mark.django_db(transaction=True)
def test_the_check_before_the_day_ends_as_it_says() -> None:
    printed = StringIO()
    with pytest.raises(SystemExit) as raised:
        call_command(
            "race", "check", "lost_update", "shorturl.resolving.naive:resolve", stdout=printed
        )
    assert raised.value.code == 1
    assert "Violated: hits = 1, not 2." in printed.getvalue()


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_a_page_of_the_lab(address: str) -> None:
    match = resolve(urlsplit(address).path)
    assert match.namespace == "lab" or address == "/"


EXPLORATION = re.compile(r"/lab/races/(\w+)/(\w+)/(\d)/")


@pytest.fixture
def explored(transactional_db: None) -> None:
    """The explorations that the text opens, recorded."""
    found = {"/".join(match.groups()) for match in map(EXPLORATION.match, ADDRESSES) if match}
    assert len(found) > 10
    here = ["--database", connection.settings_dict["NAME"]]
    command = [sys.executable, "manage.py", "record", *sorted(found), *here]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("explored")
def test_every_page_opens(client: Client) -> None:
    """With the strategies and the schedules that its address names."""
    for address in ADDRESSES:
        response = client.get(address)
        assert response.status_code == 200, address
        schedule = parse_qs(urlsplit(address).query).get("schedule", [""])[0]
        assert schedule in response.content.decode(), address


# What the text says of a schedule that it opens: does it break?
BREAKS = {
    ("naive", "12"): True,
    ("check_first", "1212"): True,
    ("check_first", "11222"): False,
    ("table_lock", "121112222"): False,
    ("forgiveness", "11122"): True,
    ("on_conflict", "122"): False,
    ("naive", "1212"): True,
    ("naive", "1122"): False,
    ("atomic_only", "112122"): True,
    ("select_for_update", "121122"): False,
    ("f_expression", "1212"): False,
    ("update_returning", "12"): False,
    ("f_expression_full_save", "121"): True,
}


@pytest.mark.django_db(transaction=True)
def test_the_schedules_break_or_hold_as_the_text_says() -> None:
    seen = set()
    for address in ADDRESSES:
        query = parse_qs(urlsplit(address).query)
        match = EXPLORATION.match(address)
        if match and "schedule" in query:
            (schedule,) = query["schedule"]
            name, strategy, processes = match.groups()
            found = RACES[name]
            shown = found.run(found.strategies[strategy], int(processes), schedule)
            assert bool(shown.violation) is BREAKS[strategy, schedule], address
            assert int(query.get("predict", ["0"])[0]) < len(schedule)
            seen.add((strategy, schedule))
    assert seen == set(BREAKS)


def test_the_museum_has_what_is_opened_in_it() -> None:
    opened = set(re.findall(r"/lab/races/(\w+)/", TEXT)) - set(RACES)
    assert opened <= set(MUSEUM)
    assert len(opened) == 2


def test_the_exercises_are_all_described() -> None:
    section = TEXT.split("### Exercises")[1].split("\n### ")[0]
    described = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert sorted(described) == sorted(EXERCISES)
    assert set(re.findall(r"`exercises/(\w+)\.py`", section)) <= set(EXERCISES)
