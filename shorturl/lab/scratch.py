"""A database of the lab's own, so that no race ever touches the service's links."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection


@contextmanager
def scratch_database() -> Iterator[str]:
    """Make an empty, migrated database beside the service's, use it within the block, drop it.

    Yields its name. All connections that this process opens within the block lead to it. Raises
    DatabaseError when the role may not create databases.
    """
    own = connection.settings_dict["NAME"]
    test = connection.settings_dict["TEST"]
    before, test["NAME"] = test["NAME"], f"{own}_race_{os.getpid()}"
    # Django's test runner makes and drops databases every day; this is its way to do so.
    name = connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        yield name
    finally:
        connection.creation.destroy_test_db(own, verbosity=0)
        test["NAME"] = before
