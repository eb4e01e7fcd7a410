"""The tables of the explorer's tests, and a check that no session or thread is left."""

import threading
import time
from collections.abc import Iterator

import pytest
from django.db import connection

from pginterleave.pytest_plugin import Interleave

from .counter import sql
from .shop import Item

SESSIONS = (
    "SELECT pid, application_name, state, query FROM pg_stat_activity WHERE pid != pg_backend_pid()"
    " AND datname = current_database() AND backend_type = 'client backend'"
)


@pytest.fixture
def counter_table(transactional_db: None) -> Iterator[None]:
    sql("DROP TABLE IF EXISTS interleave_counter")
    sql(
        "CREATE TABLE interleave_counter (id int PRIMARY KEY, key text UNIQUE, hits int)"
        " WITH (autovacuum_enabled = off)"  # whose ANALYZE would change plans, and so SIREAD locks
    )
    yield
    sql("DROP TABLE interleave_counter")


@pytest.fixture
def nothing_is_left(counter_table: None) -> Iterator[None]:
    """Check that no session and no thread is left; wait first for the sessions of other tests."""
    while sql(SESSIONS):
        time.sleep(0.001)
    before = threads()
    yield
    assert sql(SESSIONS) == []
    assert threads() <= before


def threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if not isinstance(each, threading.Timer)}


@pytest.fixture
def item_table(interleave: Interleave) -> Iterator[None]:
    with connection.schema_editor() as editor:
        editor.create_model(Item)
    yield
    with connection.schema_editor() as editor:
        editor.delete_model(Item)
