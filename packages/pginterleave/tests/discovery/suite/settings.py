"""The settings of a small project, whose suite the tests of the discovery run."""

import json
import os
from pathlib import Path

DATABASES = json.loads(os.environ["SUITE_DATABASES"])
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
ROOT_URLCONF = "shop.urls"
SECRET_KEY = "tests"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
MEDIA_ROOT = os.environ.get("SUITE_MEDIA", str(Path(__file__).parent / "media"))
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"rows": {"class": "shop.log.RowHandler"}},
    "loggers": {"shop": {"handlers": ["rows"]}},
}
