"""The project as a Django app, for its system checks."""

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    """Registers the system checks, and makes what the workers share before they are forked."""

    name = "project"

    def ready(self) -> None:
        from project import checks, login  # noqa: F401
