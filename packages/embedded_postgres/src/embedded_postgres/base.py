"""Django's PostgreSQL backend and its dbshell, which start the server when they connect."""

from collections.abc import Iterable
from typing import Any

from django.db.backends.postgresql import base as postgresql
from django.db.backends.postgresql import client

from embedded_postgres import postgres
from embedded_postgres.server import Server, server_of


class DatabaseClient(client.DatabaseClient):
    @classmethod
    def settings_to_cmd_args_env(
        cls, settings_dict: dict[str, Any], parameters: Iterable[str]
    ) -> tuple[list[str], dict[str, str] | None]:
        """Return the command line and environment of the package's psql; start the server."""
        running = server_of(settings_dict).use(settings_dict["NAME"])
        address = {name.upper(): value for name, value in _address(running).items()}
        args, env = super().settings_to_cmd_args_env({**settings_dict, **address}, parameters)
        return [str(postgres.programs() / "psql"), *args[1:]], env


class DatabaseWrapper(postgresql.DatabaseWrapper):
    client_class = DatabaseClient

    @property
    def server(self) -> Server:
        """The server of this database, whether it is running or not; raises as server_of()."""
        return server_of(self.settings_dict)

    def get_connection_params(self) -> dict[str, Any]:
        """Return the driver's parameters, after starting the server and creating the database."""
        params: dict[str, Any] = super().get_connection_params()
        return {**params, **_address(self.server.use(self.settings_dict["NAME"]))}

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Return a new connection; start the server again if it was stopped or killed."""
        try:
            return super().get_new_connection(conn_params)
        except self.Database.OperationalError:
            # If the server is running, the second attempt fails with the same error.
            running = self.server.use(self.settings_dict["NAME"], again=True)
            return super().get_new_connection({**conn_params, **_address(running)})


def _address(running: postgres.Running) -> dict[str, Any]:
    return {"host": str(running.socket_directory), "port": running.port, "user": postgres.USER}
