"""The client's time limit on waiting for PostgreSQL."""

import socket
import time
from collections.abc import Iterator

import psycopg2
import pytest
from django.db import OperationalError, connection
from psycopg2 import extensions

from project.database import deadlines

LIMIT = 0.2  # seconds
# No longer, as the statement goes on when its client has left, and DROP DATABASE waits for it.
LONGER = f"SELECT pg_sleep({10 * LIMIT})"


@pytest.fixture(autouse=True)
def install_deadline() -> Iterator[None]:
    """Install the deadline, as in a worker."""
    before = extensions.get_wait_callback()
    extensions.set_wait_callback(deadlines.wait_for_answer)
    yield
    extensions.set_wait_callback(before)


@pytest.mark.django_db(transaction=True)
def test_a_statement_ends_at_the_deadline_and_its_connection_is_closed() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        with (
            deadlines.limit_waits(LIMIT),
            pytest.raises(OperationalError, match="has not answered within"),
        ):
            cursor.execute(LONGER)
    assert connection.connection.closed
    connection.close()
    with connection.cursor() as cursor:
        # Outside of the block, as in commands, a statement has no limit.
        cursor.execute("SELECT pg_sleep(%s)", [2 * LIMIT])


@pytest.mark.django_db(transaction=True)
def test_a_block_within_another_can_only_shorten_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with deadlines.limit_waits(3600):
        with (
            deadlines.limit_waits(LIMIT),
            deadlines.limit_waits(7200),  # does not lengthen it
            pytest.raises(OperationalError, match="has not answered within"),
            connection.cursor() as cursor,
        ):
            cursor.execute(LONGER)
        connection.close()
        with connection.cursor() as cursor:
            # The limit of the outer block still holds: an hour later a statement ends at once.
            an_hour_later = time.monotonic() + 3600
            monkeypatch.setattr(time, "monotonic", lambda: an_hour_later)
            with pytest.raises(OperationalError, match="has not answered within"):
                cursor.execute(LONGER)
            monkeypatch.undo()
    connection.close()


@pytest.mark.django_db(transaction=True)
def test_connecting_to_a_server_that_does_not_answer_ends_at_the_deadline() -> None:
    parameters = connection.get_connection_params()
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel accepts, and nobody answers
        address = {"host": "127.0.0.1", "port": silent.getsockname()[1]}
        with (
            deadlines.limit_waits(LIMIT),
            pytest.raises(psycopg2.OperationalError, match="has not answered within"),
        ):
            psycopg2.connect(**{**parameters, **address})
