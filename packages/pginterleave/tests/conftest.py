"""The tables of the explorer's tests, and a check that no session or thread is left."""

import re
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
CREATED = re.compile(
    r'CREATE (SCHEMA|TABLE|VIEW|MATERIALIZED VIEW|SEQUENCE|FUNCTION) ("[^"]+"|\w+)'
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
def tables(counter_table: None, request: pytest.FixtureRequest) -> Iterator[None]:
    """Make what TABLES of the test's module creates, and drop it afterwards."""
    sql(request.module.TABLES)
    yield
    for kind, name in CREATED.findall(request.module.TABLES):
        sql(f"DROP {kind} IF EXISTS {name} CASCADE")


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
