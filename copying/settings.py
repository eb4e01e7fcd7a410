"""Another project: three models, and nothing of the service."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))  # where embedded_postgres lies

DATABASES = {
    "default": {
        "ENGINE": "embedded_postgres",
        "NAME": "copies",
        "DIRECTORY": HERE / ".postgres",
        "OPTIONS": {"options": "-c lock_timeout=10s"},
    }
}
INSTALLED_APPS = ["links"]
MIGRATION_MODULES = {"links": None}  # the tables as the models are
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SECRET_KEY = "tests"
USE_TZ = True
