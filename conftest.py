"""What several test packages share."""

from typing import Any

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the whole matrix, for `make prove`."""
    for item in items:
        if "cells" in getattr(item, "fixturenames", ()):
            item.add_marker("exhaustive")


@pytest.fixture(scope="session")
def cells(django_db_setup: None, django_db_blocker: Any) -> list[Any]:
    """The cells of the matrix, explored once for all tests that need them (it takes minutes)."""
    from shorturl.lab import matrix
    from shorturl.lab.scratch import scratch_database

    with django_db_blocker.unblock(), scratch_database():
        return list(matrix.cells(max_seconds=600, max_schedules=100_000))
