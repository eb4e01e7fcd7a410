"""The database connections of the threads that count redirects."""

import pytest
from django.db import connection

from project.serving.redirects import with_connection


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_is_too_old_is_closed_after_the_statement() -> None:
    connection.ensure_connection()
    for close_at, is_open in (None, True), (0.0, False):
        connection.close_at = close_at
        with_connection(list)
        assert (connection.connection is not None) is is_open
