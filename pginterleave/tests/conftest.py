"""The tables of the explorer's tests."""

from collections.abc import Iterator

import pytest
from django.db import connection

from .counter import sql
from .vouchers import Voucher


@pytest.fixture
def counter_table(transactional_db: None) -> Iterator[None]:
    """Make the table, and drop it afterwards."""
    sql("DROP TABLE IF EXISTS interleave_counter")
    sql(
        "CREATE TABLE interleave_counter (id int PRIMARY KEY, key text UNIQUE, hits int)"
        " WITH (autovacuum_enabled = off)"  # whose ANALYZE would change plans, and so SIREAD locks
    )
    yield
    sql("DROP TABLE interleave_counter")


@pytest.fixture
def voucher_table(transactional_db: None) -> Iterator[None]:
    """Make the table, as a migration would, and drop it afterwards."""
    with connection.schema_editor() as editor:
        editor.create_model(Voucher)
    yield
    with connection.schema_editor() as editor:
        editor.delete_model(Voucher)
