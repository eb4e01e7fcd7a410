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
print([ask(path).status_code for path in ("/login", "/api/docs", "/lab/", "/lab/spaces")])
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
            "SHORTURL_LAB_LOAD": "",
            "DATABASE_URL": "postgres:///unused",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert printed in ended.stdout
    assert said in ended.stderr
