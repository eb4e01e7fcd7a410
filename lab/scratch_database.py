"""A separate database for explorations, so that no race touches the service's links."""

import hashlib
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from django.apps import apps
from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.db import DEFAULT_DB_ALIAS, connection
from django.db.backends.base.base import BaseDatabaseWrapper

from lab.exceptions import LabRefusal

LOCK = 0x6C6162  # "lab": the holder of this advisory lock in the service's database explores
# On a busy machine, a wait that belongs to a schedule can exceed the service's lock_timeout.
PATIENT = " -c lock_timeout=10s"


@contextmanager
def scratch_database(waiting: Callable[[], object] = lambda: None) -> Iterator[str]:
    """Within the block, let new connections of this process lead to a migrated database.

    It is beside the service's, and kept for the next caller: one at a time, of all machines.
    `waiting` is called if another process uses it. It is made again if the migrations have changed:
    its comment says which ones it has, and is written last. Yields its name. Raises LabRefusal if
    the role may not create databases.
    """
    name, wanted = name_beside(connection.settings_dict["NAME"]), migrations_digest()
    keeper = connection.copy()  # stays in the service's database, and holds the lock
    try:
        check_role(keeper)
        if is_locked(keeper):
            waiting()
        with keeper.cursor() as cursor:
            cursor.execute(
                "SELECT set_config(name, '0', false) FROM unnest(%s) AS name",
                [["lock_timeout", "statement_timeout"]],
            )
            cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
            # A killed process can have left sessions behind.
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
            )
            cursor.execute(
                "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s",
                [name],
            )
            is_made = cursor.fetchone() == (wanted,)
        with connected_to(name):
            if not is_made:
                drop(keeper, name)
                with patch.dict(connection.settings_dict["TEST"], NAME=name):
                    connection.creation.create_test_db(verbosity=0, serialize=False)
                with keeper.cursor() as cursor:
                    quoted = keeper.ops.quote_name(name)
                    cursor.execute(f"COMMENT ON DATABASE {quoted} IS %s", [wanted])
            yield name
    finally:
        keeper.close()


def name_beside(own: str) -> str:
    """Return the name of the scratch database of the database `own`.

    The checksum distinguishes services whose names begin alike. Names have at most 63 bytes.
    """
    start = own.encode("ascii", "ignore")[:40].decode()
    return f"{start}_lab_{zlib.crc32(own.encode()):08x}"


def migrations_digest() -> str:
    """Return the SHA-256 of the migrations of all apps, in hex."""
    found = hashlib.sha256()
    for app in apps.get_app_configs():
        for path in sorted(Path(app.path, "migrations").glob("*.py")):
            found.update(f"{app.label} {path.name}".encode() + path.read_bytes())
    return found.hexdigest()


def is_locked(using: BaseDatabaseWrapper, *, granted: bool = True) -> bool:
    """Return whether a process has the lock; if not `granted`, whether one waits for it."""
    with using.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s"
            " AND classid = 0 AND granted = %s"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            [LOCK, granted],
        )
        return bool(cursor.fetchone()[0])


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


def check_role(using: BaseDatabaseWrapper) -> None:
    """Raise LabRefusal if the role may not create databases."""
    with using.cursor() as cursor:
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


def drop(using: BaseDatabaseWrapper, name: str) -> None:
    with using.cursor() as cursor:
        quoted = using.ops.quote_name(name)
        cursor.execute(f"DROP DATABASE IF EXISTS {quoted} WITH (FORCE)")
