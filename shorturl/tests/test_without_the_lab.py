"""An installation works without the lab and the explorer, as in production."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import sys
# As in a checkout with the packages of production: the explorer's folder exists uninstalled.
sys.path = [path for path in sys.path if not path.endswith("pginterleave/src")]
import django
django.setup()
from django.core.management import call_command
from django.test import Client
call_command("check")
client = Client(headers={"host": "localhost"})
paths = ["/account/login/", "/api/docs", "/lab/", "/lab/spaces"]
print([client.get(path).status_code for path in paths])
"""


@pytest.mark.parametrize(
    ("lab", "output", "error"),
    [("", "[200, 200, 404, 404]", ""), ("on", "", "this installation has no lab")],
    ids=["turned off", "turned on"],
)
def test_without_the_lab_the_service_runs_and_the_lab_cannot_be_turned_on(
    lab: str, output: str, error: str
) -> None:
    settings = {
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "SHORTURL_LOCAL": "on",
        "SHORTURL_LAB": lab,
        "DATABASE_URL": "postgres:///unused",
    }
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert output in process.stdout
    assert error in process.stderr
