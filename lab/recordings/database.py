"""The database in which commands explore, so that no race touches the service's links."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from django.db import connection

# On a busy machine, a wait that belongs to a schedule can exceed the service's lock_timeout. No row
# of an exploration has to outlive a crash.
SETTINGS = " -c lock_timeout=10s -c synchronous_commit=off"


@contextmanager
def temporary_database() -> Iterator[None]:
    """Connect to a database of Django's test runner within the block, and drop it afterwards."""
    name = connection.settings_dict["NAME"]
    options = connection.settings_dict["OPTIONS"]
    with (
        patch.dict(connection.settings_dict["TEST"], NAME=f"lab_{name}"),
        patch.dict(options, options=options.get("options", "") + SETTINGS),
    ):
        connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
        try:
            yield
        finally:
            connection.creation.destroy_test_db(name, verbosity=0)
