"""The settings of another project, which has three models and none of the service's code."""

from pathlib import Path

HERE = Path(__file__).resolve().parent

DATABASES = {
    "default": {
        "ENGINE": "embedded_postgres",
        "NAME": "copies",
        "DIRECTORY": HERE / ".postgres",
        "OPTIONS": {"options": "-c lock_timeout=10s"},
    }
}
INSTALLED_APPS = ["links"]
MIGRATION_MODULES = {"links": None}  # creates the tables without migrations
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SECRET_KEY = "tests"
USE_TZ = True
