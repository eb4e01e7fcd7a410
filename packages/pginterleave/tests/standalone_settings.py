"""Django's settings for these tests alone: `cd pginterleave && pytest`.

The database is DATABASE_URL's or, when PGHOST or PGDATABASE is set, that of libpq's environment;
otherwise the embedded PostgreSQL of the repository, kept in .postgres beside this package.
"""

import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

PACKAGE = Path(__file__).resolve().parent.parent


def database() -> dict[str, Any]:
    engine = "django.db.backends.postgresql"
    if url := os.environ.get("DATABASE_URL"):
        parts = urlsplit(url)
        given = {"USER": parts.username, "PASSWORD": parts.password, "HOST": parts.hostname}
        known = {name: unquote(value) for name, value in given.items() if value}
        return {"ENGINE": engine, "NAME": parts.path[1:], "PORT": parts.port or "", **known}
    if os.environ.keys() & {"PGHOST", "PGDATABASE"}:
        return {"ENGINE": engine, "NAME": os.environ.get("PGDATABASE", "postgres")}
    sys.path.append(str(PACKAGE.parent / "embedded_postgres" / "src"))
    return {"ENGINE": "embedded_postgres", "NAME": "test", "DIRECTORY": PACKAGE / ".postgres"}


DATABASES = {"default": database()}
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.sites", "tests.recipes"]
SECRET_KEY = "tests"
USE_TZ = True
