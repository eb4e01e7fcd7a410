"""An installation works without the lab and the explorer, as in production."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ASK = """
import sys
# As in a checkout with the packages of production: the explorer's folder exists uninstalled.
sys.path = [each for each in sys.path if not each.endswith("pginterleave/src")]
import django
django.setup()
from django.core.management import call_command
from django.test import Client
call_command("check")
ask = Client(headers={"host": "localhost"}).get
print([ask(path).status_code for path in ("/account/login/", "/api/docs", "/lab/", "/lab/spaces")])
"""


@pytest.mark.parametrize(
    ("lab", "printed", "said"),
    [("", "[200, 200, 404, 404]", ""), ("on", "", "this installation has no lab")],
)
def test_without_the_lab(lab: str, printed: str, said: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "SHORTURL_LOCAL": "on",
            "SHORTURL_LAB": lab,
            "DATABASE_URL": "postgres:///unused",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert printed in ended.stdout
    assert said in ended.stderr


STARTED = """
import sys
import django
django.setup()
import project.asgi
from django.urls import get_resolver
get_resolver().url_patterns
from shorturl.management.commands import deliver, roll_up
print(*(name.removeprefix("shorturl.strategies.") for name in sys.modules
    if name.startswith("shorturl.strategies.") and name.count(".") == 3))
"""


def test_a_started_service_has_imported_no_wrong_strategy() -> None:
    """It has those that it runs and no other, and no table."""
    ended = subprocess.run(
        [sys.executable, "-c", STARTED],
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "SHORTURL_LOCAL": "on",
            "SHORTURL_LAB": "off",
            "DATABASE_URL": "postgres:///unused",
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert {*ended.stdout.split()} == {
        "creating.on_conflict",
        "delivering.update_skip_locked",
        "idempotency.advisory_lock",
        "recording_visits.combined",
        "reusing.advisory_lock",
        "rolling_up.batches",
        "spending.reservation",
    }
