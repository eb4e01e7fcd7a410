"""A separate database for explorations, so that no race touches the service's links."""

import hashlib
import secrets
import signal
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from django.apps import apps
from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connection
from django.db.backends.base.base import BaseDatabaseWrapper

from lab.exceptions import LabRefusal

LOCK = 0x72616365  # "race": the class of the advisory locks on scratch databases
# On a busy machine, a wait that belongs to a schedule can exceed the service's lock_timeout.
PATIENT = " -c lock_timeout=10s"


@contextmanager
def scratch_database() -> Iterator[str]:
    """Create an empty, migrated database beside the service's, use it within the block, drop it.

    Yields its random name. Within the block, all new connections of this process lead to it. It is
    dropped at Ctrl-C and SIGTERM too. An advisory lock in the service's database tells all hosts
    that it is in use. A killed process loses this lock, and the next process drops the database.
    Raises LabRefusal if the role may not create databases.
    """
    name = prefix(connection.settings_dict["NAME"]) + secrets.token_hex(8)
    keeper = connection.copy()  # stays in the service's database, with the lock
    with terminated_by_exit():
        try:
            check_role(keeper)
            sweep(keeper)
            is_free(keeper, name)
            with connected_to(name):
                create()
                yield name
        finally:
            drop(keeper, name)
            keeper.close()


@contextmanager
def kept_scratch_database() -> Iterator[str]:
    """Within the block, use a migrated database that stays for the next caller.

    It is made again if the migrations have changed. Its comment tells which it has, and is written
    last. Only one process at a time may use it. Raises LabRefusal if the role may not create
    databases.
    """
    name = prefix(connection.settings_dict["NAME"], "kept")
    keeper, wanted = connection.copy(), migrations_digest()
    with terminated_by_exit():
        try:
            check_role(keeper)
            with keeper.cursor() as cursor:
                # A killed process can have left sessions behind.
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                    [name],
                )
                cursor.execute(
                    "SELECT shobj_description(oid, 'pg_database') FROM pg_database"
                    " WHERE datname = %s",
                    [name],
                )
                is_made = cursor.fetchone() == (wanted,)
            with connected_to(name):
                if not is_made:
                    create()
                    with keeper.cursor() as cursor:
                        quoted = keeper.ops.quote_name(name)
                        cursor.execute(f"COMMENT ON DATABASE {quoted} IS %s", [wanted])
                yield name
        finally:
            keeper.close()


def migrations_digest() -> str:
    """Return the SHA-256 of the migrations of all apps, in hex."""
    found = hashlib.sha256()
    for app in apps.get_app_configs():
        for path in sorted(Path(app.path, "migrations").glob("*.py")):
            found.update(f"{app.label} {path.name}".encode() + path.read_bytes())
    return found.hexdigest()


@contextmanager
def connected_to(name: str) -> Iterator[None]:
    """Within the block, let new connections of this process lead to the database `name`."""
    own, options = connection.settings_dict["NAME"], connection.settings_dict["OPTIONS"]
    both = (connection.settings_dict, settings.DATABASES[DEFAULT_DB_ALIAS])
    connection.close()
    try:
        with patch.dict(options, options=options.get("options", "") + PATIENT):
            for each in both:
                each["NAME"] = name
            yield
    finally:
        connection.close()
        for each in both:
            each["NAME"] = own
        ContentType.objects.clear_cache()  # which holds the ids of the scratch database


def create() -> None:
    """Make the database that new connections lead to, as Django's test runner does it."""
    name = connection.settings_dict["NAME"]
    with patch.dict(connection.settings_dict["TEST"], NAME=name):
        connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)


def prefix(own: str, infix: str = "race") -> str:
    """Return the prefix of the names of `own`'s scratch databases.

    The checksum distinguishes services whose names begin alike. Names have at most 63 bytes.
    """
    start = own.encode("ascii", "ignore")[:30].decode()
    return f"{start}_{infix}_{zlib.crc32(own.encode()):08x}_"


def check_role(keeper: BaseDatabaseWrapper) -> None:
    """Raise LabRefusal if the role may not create databases."""
    with keeper.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")  # a DROP is slow on a busy machine
        cursor.execute(
            "SELECT rolcreatedb OR rolsuper, current_user FROM pg_roles "
            "WHERE rolname = current_user"
        )
        allowed, role = cursor.fetchone()
    if not allowed:
        raise LabRefusal(
            f"The role {role!r} may not create databases, and races need a separate one: "
            f"ALTER ROLE {role} CREATEDB"
        )


def sweep(keeper: BaseDatabaseWrapper) -> None:
    """Drop unused scratch databases."""
    for name in scratch_databases(keeper):
        if is_free(keeper, name):
            with suppress(DatabaseError):  # another role owns it, and will drop it
                drop(keeper, name)
            with keeper.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, hashtext(%s))", [LOCK, name])


def scratch_databases(using: BaseDatabaseWrapper) -> list[str]:
    with using.cursor() as cursor:
        cursor.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname, %s)",
            [prefix(using.settings_dict["NAME"])],
        )
        return [name for (name,) in cursor.fetchall()]


def is_free(keeper: BaseDatabaseWrapper, name: str) -> bool:
    """Try to lock the database `name` for `keeper`; return whether the lock was free."""
    with keeper.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, hashtext(%s))", [LOCK, name])
        return bool(cursor.fetchone()[0])


def drop(using: BaseDatabaseWrapper, name: str) -> None:
    with using.cursor() as cursor:
        quoted = using.ops.quote_name(name)
        cursor.execute(f"DROP DATABASE IF EXISTS {quoted} WITH (FORCE)")


@contextmanager
def terminated_by_exit() -> Iterator[None]:
    """Within the block, let SIGTERM end the process with all clean-up, as sys.exit() does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(*_: Any) -> None:
        sys.exit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
