"""The settings of tests and exercises: a local run's, whatever a production's .env says."""

import os
import re
from pathlib import Path

_file = Path(__file__).resolve().parents[2] / ".env"
_text = _file.read_text() if _file.exists() else ""
# What is empty in the environment counts as unset, and wins over .env; for started programs, too.
for _name in re.findall(r"^\s*(?:export\s+)?(\w+)\s*=", _text, re.MULTILINE):
    os.environ.setdefault(_name, "")
os.environ["SHORTURL_LOCAL"] = os.environ.get("SHORTURL_LOCAL") or "on"

from project.settings import *  # noqa: E402, F403
