"""The database of the tests, as the benchmark addresses it."""

import pytest
from django.db import connection

from loadtests.bench.services import Database


@pytest.fixture
def database(transactional_db: None) -> Database:
    return Database(connection.get_connection_params())
