"""What several test packages share."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from django.core.management.commands import flush
from django.db import connection

KEPT = {"django_content_type", "auth_permission"}  # what a migration puts there


@pytest.fixture(scope="session", autouse=True)
def emptied_by_delete() -> Iterator[None]:
    """Empty the tables, after a test that commits, with DELETE instead of TRUNCATE.

    The flush command has new files written to the disk, and content types and permissions made
    anew: 80 ms for each of 400 tests, to remove a few rows.
    """

    def sql_flush(_self: object, _style: object, tables: Sequence[str], **_: object) -> list[str]:
        from django.contrib.contenttypes.models import ContentType

        ContentType.objects.clear_cache()  # as the signal does that is not sent
        names = map(connection.ops.quote_name, set(tables) - KEPT)
        return [f"DELETE FROM {name}" for name in names]  # noqa: S608 - Django's own tables

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(connection.ops), "sql_flush", sql_flush)
        patch.setattr(flush, "emit_post_migrate_signal", lambda *_, **__: None)
        yield


USE_CELLS = {  # files of tests that share the fixture below
    "lab/catalogue/tests/test_races.py",
    "lab/catalogue/tests/test_races_doc.py",
    "project/tests/test_docs.py",
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With --dist=loadfile, give these files to one worker: two would explore the same matrix."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class ByFile(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.split("::")[0]
            return "cells" if path in USE_CELLS else path

    return ByFile(config, log)


@pytest.fixture(scope="session")
def cells(django_db_setup: None, django_db_blocker: Any) -> list[Any]:
    """The cells of the matrix, explored once for all tests that need them."""
    from lab.catalogue import matrix
    from lab.scratch_database import scratch_database

    with django_db_blocker.unblock(), scratch_database():
        return list(matrix.cells(max_seconds=600, max_schedules=100_000))
