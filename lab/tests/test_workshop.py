"""docs/workshop.md names commands, pages and exercises that exist."""

import re
import shlex
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.management import get_commands, load_command_class
from django.test import Client

from project.docs import ROOT

TEXT = (ROOT / "docs" / "workshop.md").read_text()
SERVICE = "http://127.0.0.1:8000"
ADDRESSES = sorted(set(re.findall(rf"{SERVICE}(/[^\s>)`]*)", TEXT)))

SHOWN = re.compile(r"^ *```sh\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`((?:\.venv/bin/|make )[^`]+)`")
LINES = [line.strip() for block in SHOWN.findall(TEXT) for line in block.splitlines()]
COMMANDS = sorted({*LINES, *NAMED.findall(TEXT)})
MANAGED = [line.split("manage.py ")[1] for line in COMMANDS if "manage.py " in line]


def test_the_commands_can_be_given() -> None:
    assert len(MANAGED) >= 2
    for command in MANAGED:
        name, *arguments = shlex.split(command)
        found = load_command_class(str(get_commands()[name]), name)
        found.create_parser("manage.py", name).parse_args(arguments)


EXERCISES = {path.stem for path in (ROOT / "lab" / "exercises").glob("[a-z]*.py")}


# Whether a schedule that the text opens violates the invariant, as the text says.
VIOLATES = {
    ("naive", "112"): True,
    ("check_first", "12112"): True,
    ("check_first", "1112222"): False,
    ("table_lock", "121112222"): False,
    ("forgiveness", "11122"): True,
    ("on_conflict", "121222"): False,
    ("naive", "121122"): True,
    ("naive", "111222"): False,
    ("atomic_only", "112122"): True,
    ("select_for_update", "121122"): False,
    ("f_expression", "121122"): False,
    ("update_returning", "1212"): False,
    ("f_expression_full_save", "12211"): True,
}


@pytest.mark.django_db  # the service's own pages
def test_every_page_opens_and_its_schedule_ends_as_the_text_says(client: Client) -> None:
    seen = {}
    for address in ADDRESSES:
        response = client.get(address)
        assert response.status_code == 200, address
        if "predict=" in address:  # and the title does not reveal the answer
            page = response.content.decode()
            assert "What will the rows contain after the last step?" in page
            assert response.context["race"].title not in page.split("</h1>")[0]
        if schedule := parse_qs(urlsplit(address).query).get("schedule"):
            shown = response.context["schedule"]
            assert [shown.order] == schedule
            seen[response.context["strategy"].name, shown.order] = bool(shown.violation)
    assert seen == VIOLATES


def test_the_exercises_are_all_described() -> None:
    section = TEXT.split("### Exercises")[1].split("\n### ")[0]
    described = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert sorted(described) == sorted(EXERCISES)
    assert set(re.findall(r"exercises/(?:tests/)?(\w+)\.py", section)) - {"solutions"} <= EXERCISES
