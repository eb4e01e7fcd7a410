"""What happens elsewhere just before a certain statement of a request."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection


@contextmanager
def before_statement(*words: str, call: Callable[[], object]) -> Iterator[None]:
    """Within the block, call the function before each SQL statement that has these words."""

    def call_and_execute(execute: Any, sql: Any, *rest: Any) -> Any:
        if all(word in str(sql) for word in words):
            call()
        return execute(sql, *rest)

    with connection.execute_wrapper(call_and_execute):
        yield
