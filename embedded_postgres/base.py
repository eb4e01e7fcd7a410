"""Django's PostgreSQL backend on a server that is started when a connection needs it."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db.backends.postgresql import base as postgresql

from embedded_postgres import postgres
from embedded_postgres.client import DatabaseClient
from embedded_postgres.server import Server, server_in


class DatabaseWrapper(postgresql.DatabaseWrapper):
    client_class = DatabaseClient

    @property
    def server(self) -> Server:
        """The server of this database, started or not.

        Raises:
            ImproperlyConfigured: the database has no DIRECTORY, or an address of its own.
        """
        directory = self.settings_dict.get("DIRECTORY")
        if not directory or any(self.settings_dict[key] for key in ("HOST", "PORT", "USER")):
            raise ImproperlyConfigured(
                'A database with ENGINE "embedded_postgres" needs its DIRECTORY, for '
                'example BASE_DIR / ".postgres", and has no HOST, PORT or USER'
            )
        return server_in(directory)

    def get_connection_params(self) -> dict[str, Any]:
        """Return what the driver needs to connect, with the server up and the database there."""
        params: dict[str, Any] = super().get_connection_params()
        return {**params, **_address(self.server.use(self.settings_dict["NAME"]))}

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Return a new connection; bring the server back first if it went away meanwhile."""
        try:
            return super().get_new_connection(conn_params)
        except self.Database.OperationalError:
            # Most likely the server was killed or stopped. If it was not, this fails as before.
            running = self.server.use(self.settings_dict["NAME"], again=True)
            return super().get_new_connection({**conn_params, **_address(running)})


def _address(running: postgres.Running) -> dict[str, Any]:
    return {"host": str(running.socket_directory), "port": running.port, "user": postgres.USER}
