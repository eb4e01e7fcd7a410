"""Sessions with a node that end between two statements, as when PostgreSQL's backend is killed."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from project.serving.connection import Session


@contextmanager
def end_sessions_after_each_statement() -> Iterator[None]:
    """In the block, terminate each session that has run a statement, before the next one."""
    fetch = Session.fetch

    async def fetch_and_terminate(session: Session, *args: Any, **options: Any) -> list[Any]:
        rows = await fetch(session, *args, **options)
        await asyncio.to_thread(terminate, session)
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "fetch", fetch_and_terminate)
        yield


def terminate(session: Session) -> None:
    """Terminate a session by another one with the same node, and wait for its end."""
    pid = session.connection.info.backend_pid
    with closing(session.open_database().copy()) as other, other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])  # waits 10 s for its end
