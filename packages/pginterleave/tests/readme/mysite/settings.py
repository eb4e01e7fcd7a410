"""The settings of the README's project. PYTHONPATH has the folder of the package's tests."""

from tests.standalone_settings import database

DATABASES = {"default": database()}
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "polls",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
ROOT_URLCONF = "polls.urls"
SECRET_KEY = "tests"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
MIGRATION_MODULES = dict.fromkeys(["auth", "contenttypes", "sessions"])  # polls has no migrations
