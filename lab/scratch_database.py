"""A database of the lab's own, so that no race ever touches the service's links."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.core.management import CommandError
from django.db import connection

MARK = "_race_"  # between the service's database and the process that made the scratch one


@contextmanager
def scratch_database() -> Iterator[str]:
    """Make an empty, migrated database beside the service's, use it within the block, drop it.

    Yields its name. All connections that this process opens within the block lead to it. It is
    dropped at Ctrl-C and SIGTERM too, and what a killed process left is dropped by the next one.
    Raises CommandError when the role may not create databases.
    """
    own = connection.settings_dict["NAME"]
    sweep(own)
    test = connection.settings_dict["TEST"]
    before, name = test["NAME"], f"{own[:40]}{MARK}{os.getpid()}"
    test["NAME"] = name
    with terminated_by_exit():
        try:
            # Django's test runner makes and drops databases every day; this is its way to do so.
            connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
            yield name
        finally:
            connection.settings_dict["NAME"] = name
            connection.creation.destroy_test_db(own, verbosity=0)
            test["NAME"] = before
            ContentType.objects.clear_cache()  # which holds the ids of the scratch database


def sweep(own: str) -> None:
    """Drop the scratch databases whose process has ended."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT rolcreatedb OR rolsuper, current_user FROM pg_roles "
            "WHERE rolname = current_user"
        )
        allowed, role = cursor.fetchone()
        if not allowed:
            raise CommandError(
                f"The role {role!r} may not create databases, and races need one of their own: "
                f"ALTER ROLE {role} CREATEDB",
                returncode=2,
            )
        prefix = f"{own[:40]}{MARK}"
        cursor.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [prefix])
        for (name,) in cursor.fetchall():
            pid = name.removeprefix(prefix)
            if pid.isdecimal() and not is_alive(int(pid)):
                quoted = connection.ops.quote_name(name)
                cursor.execute("DROP DATABASE IF EXISTS " + quoted)


def is_alive(pid: int) -> bool:
    """Return whether a process has this id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@contextmanager
def terminated_by_exit() -> Iterator[None]:
    """Within the block, let SIGTERM end the process as sys.exit() does, with all that is owed."""
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
