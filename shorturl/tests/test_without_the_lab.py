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
sys.path = [path for path in sys.path if not path.endswith("pginterleave/src")]
import django
django.setup()
from django.core.management import call_command
from django.test import Client
call_command("check")
ask = Client(headers={"host": "localhost"}).get
print([ask(path).status_code for path in ("/account/login/", "/api/docs", "/lab/", "/lab/spaces")])
"""


def run_script(script: str, lab: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
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


@pytest.mark.parametrize(
    ("lab", "output", "error"),
    [("", "[200, 200, 404, 404]", ""), ("on", "", "this installation has no lab")],
)
def test_without_the_lab(lab: str, output: str, error: str) -> None:
    process = run_script(ASK, lab)
    assert output in process.stdout
    assert error in process.stderr


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
    process = run_script(STARTED, "off")
    assert {*process.stdout.split()} == {
        "creating.on_conflict",
        "delivering.update_skip_locked",
        "idempotency.advisory_lock",
        "recording_visits.combined",
        "reusing.advisory_lock",
        "rolling_up.batches",
        "spending.reservation",
    }
