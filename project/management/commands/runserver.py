"""`manage.py runserver`, which says in one line that the database is unavailable."""

import os

from django.contrib.staticfiles.management.commands import runserver
from django.db import OperationalError


class Command(runserver.Command):
    def check_migrations(self) -> None:
        """Warn of missing migrations; end without a database."""
        try:
            super().check_migrations()
        except OperationalError as error:
            self.stderr.write(f"manage.py: the database is unavailable: {error}".strip())
            os._exit(1)  # in a thread, as Django ends here when the port is in use
