"""The project as a Django app, for its system checks."""

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    """Registers the system checks."""

    name = "project"

    def ready(self) -> None:
        from project import checks  # noqa: F401
