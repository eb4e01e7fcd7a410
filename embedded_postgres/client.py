"""`manage.py dbshell`: the package's own psql, connected to the embedded server."""

from collections.abc import Iterable
from typing import Any

from django.db.backends.postgresql import client as postgresql

from embedded_postgres import postgres
from embedded_postgres.server import server_in


class DatabaseClient(postgresql.DatabaseClient):
    @classmethod
    def settings_to_cmd_args_env(
        cls, settings_dict: dict[str, Any], parameters: Iterable[str]
    ) -> tuple[list[str], dict[str, str] | None]:
        """Return the command line and environment of psql, after starting the server."""
        running = server_in(settings_dict["DIRECTORY"]).use(settings_dict["NAME"])
        address = {
            "HOST": str(running.socket_directory),
            "PORT": running.port,
            "USER": postgres.USER,
        }
        args, env = super().settings_to_cmd_args_env({**settings_dict, **address}, parameters)
        return [str(postgres.programs() / "psql"), *args[1:]], env
