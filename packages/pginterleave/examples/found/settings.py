"""Django settings with all packages of the findings."""

import sys
from pathlib import Path

from oscar import INSTALLED_APPS as OSCAR_APPS
from oscar.defaults import *  # noqa: F403 - as in Oscar's documentation

PACKAGE = Path(__file__).resolve().parents[2]
sys.path.append(str(PACKAGE.parent / "embedded_postgres" / "src"))

DATABASES = {
    "default": {"ENGINE": "embedded_postgres", "NAME": "found", "DIRECTORY": PACKAGE / ".postgres"}
}
SECRET_KEY = "found"
USE_TZ = True
SITE_ID = 1
ROOT_URLCONF = "found.settings"
urlpatterns: list[object] = []
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"},
    "database": {"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "cache"},
}
HAYSTACK_CONNECTIONS = {"default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"}}
WAFFLE_CREATE_MISSING_SWITCHES = True
POST_OFFICE = {"BACKENDS": {"default": "found.done_once.KeepingBackend"}}
INSTALLED_APPS = [
    *OSCAR_APPS,
    "concurrency",
    "django_fsm",
    "friendship",
    "hitcount",
    "mptt",
    "ordered_model",
    "post_office",
    "reversion",
    "sequences",
    "solo",
    "star_ratings",
    "taggit",
    "waffle",
    "found",
]
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates"}]
MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware"]
