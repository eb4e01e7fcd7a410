"""A table of visits that is a key space's own, for the roll-up.

A strategy that rolls up takes all rows of the table, of every link: a wrong one would
lose the visits of others. So the space has a copy of the empty table, with its indexes and
constraints, and the strategies' statements are sent as they are, but for the table's name.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection
from django.db.backends.postgresql.psycopg_any import sql

from lab.models import KeySpace
from shorturl.models import VisitCount

TABLE = VisitCount._meta.db_table
MAKE = sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)")
DROP = sql.SQL("DROP TABLE {}")


def table_of(space: KeySpace) -> str:
    """Return the name of the space's table."""
    return f"{space.name}-visits"


def make(space: KeySpace) -> None:
    """Make the table."""
    with connection.cursor() as cursor:
        cursor.execute(MAKE.format(sql.Identifier(table_of(space)), sql.Identifier(TABLE)))


def drop(space: KeySpace) -> None:
    """Remove the table."""
    with connection.cursor() as cursor:
        cursor.execute(DROP.format(sql.Identifier(table_of(space))))


@contextmanager
def visits_of(space: KeySpace) -> Iterator[None]:
    """Have this thread work on the visits of `space`: of its own table, if it has one."""
    if not space.own_visits:
        yield
        return
    service, own = map(connection.ops.quote_name, (TABLE, table_of(space)))

    def renamed(execute: Callable[..., Any], statement: Any, *rest: Any) -> Any:
        if not isinstance(statement, str):  # the driver's own kind
            statement = statement.as_string(connection.connection)
        return execute(statement.replace(service, own), *rest)

    with connection.execute_wrapper(renamed):
        yield
