"""A separate database for explorations, so that no race touches the service's links."""

import secrets
import signal
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

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
    own, test, options = (connection.settings_dict[name] for name in ("NAME", "TEST", "OPTIONS"))
    name, patient = prefix(own) + secrets.token_hex(8), options.get("options", "") + PATIENT
    keeper = connection.copy()  # stays in the service's database, with the lock
    with terminated_by_exit():
        try:
            sweep(keeper)
            is_free(keeper, name)
            connection.close()
            with patch.dict(test, NAME=name), patch.dict(options, options=patient):
                # As Django's test runner does it.
                connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
                yield name
        finally:
            connection.close()
            for each in (connection.settings_dict, settings.DATABASES[DEFAULT_DB_ALIAS]):
                each["NAME"] = own
            ContentType.objects.clear_cache()  # which holds the ids of the scratch database
            drop(keeper, name)
            keeper.close()


def prefix(own: str) -> str:
    """Return the prefix of the names of `own`'s scratch databases.

    The checksum distinguishes services whose names begin alike. Names have at most 63 bytes.
    """
    start = own.encode("ascii", "ignore")[:30].decode()
    return f"{start}_race_{zlib.crc32(own.encode()):08x}_"


def sweep(keeper: BaseDatabaseWrapper) -> None:
    """Drop unused scratch databases; raise LabRefusal if the role may not create databases."""
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
