"""makemigrations, which by itself would start the server to look at the history of migrations."""

from typing import Any

from django.core.management.commands import makemigrations
from django.db import connections

from embedded_postgres.base import DatabaseWrapper


class Command(makemigrations.Command):
    def handle(self, *app_labels: str, **options: Any) -> None:
        """Run makemigrations; look at the history only on a server that is up already."""
        idle = [
            connection
            for connection in connections.all()
            if isinstance(connection, DatabaseWrapper) and not connection.server.is_running()
        ]
        # Django asks every database for its history except a "dummy" one, and has no option for
        # it. Without a server there is no answer; failing to connect would print a warning.
        configured = [connection.settings_dict for connection in idle]
        for connection in idle:
            connection.settings_dict = {
                **connection.settings_dict,
                "ENGINE": "django.db.backends.dummy",
            }
        try:
            super().handle(*app_labels, **options)
        finally:
            for connection, settings_dict in zip(idle, configured, strict=True):
                connection.settings_dict = settings_dict
