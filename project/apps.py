"""The project as a Django app, for its system check, which gunicorn runs before it serves."""

from typing import Any

from django.apps import AppConfig
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.checks import CheckMessage, Error, register


class ProjectConfig(AppConfig):
    """Registers the check, and makes what the workers share before they are forked."""

    name = "project"

    def ready(self) -> None:
        from project import login  # noqa: F401

        register(check_static_files)


def check_static_files(**kwargs: Any) -> list[CheckMessage]:
    """Refuse to start without the collected static files: every page would be a 500."""
    # The manifest, which only the storage of a production has.
    if getattr(staticfiles_storage, "hashed_files", True):
        return []
    return [
        Error(
            "The static files are not collected, and every page needs them.",
            hint="Run: python manage.py collectstatic --noinput",
            id="project.E001",
        )
    ]
