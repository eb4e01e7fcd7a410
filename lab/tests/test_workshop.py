"""docs/workshop.md names commands and pages that exist, and says how their schedules end."""

import re
import shlex

import pytest
from django.core.management import get_commands, load_command_class
from django.test import Client

from project.docs import ROOT

TEXT = (ROOT / "docs" / "workshop.md").read_text()
SERVICE = "http://127.0.0.1:8000"
ADDRESSES = sorted(set(re.findall(rf"{SERVICE}(/[^\s>)`]*)", TEXT)))
COMMANDS = re.findall(r"manage\.py ([^`\n]+)", TEXT)


def test_manage_py_has_the_commands_and_their_options() -> None:
    assert COMMANDS
    for command in COMMANDS:
        name, *arguments = shlex.split(command)
        command_class = load_command_class(str(get_commands()[name]), name)
        command_class.create_parser("manage.py", name).parse_args(arguments)


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
    violates = {}
    for address in ADDRESSES:
        response = client.get(address)
        assert response.status_code == 200, address
        if "predict=" in address:  # the title does not reveal the answer, either
            before, question, _ = response.text.partition(
                "What will the rows contain after the last"
            )
            assert question
            assert response.context["race"].title not in before
        if order := response.wsgi_request.GET.get("schedule"):
            shown = response.context["schedule"]
            assert shown.order == order
            violates[response.context["strategy"].name, order] = bool(shown.violation)
    assert violates == VIOLATES
