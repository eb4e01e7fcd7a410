"""Hits that the event loop of the server counts, in a process of an exploration or in a thread."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection

from project.serving.hit_counter import HitCounter, Row
from project.serving.redirects import CountingSessions
from shorturl.models import Visit

LONG = 3600.0  # seconds, for which no schedule waits


class DjangoSessions(CountingSessions):
    """Sends the statements of the service by Django's connection, one after another."""

    async def fetch(self, sql: Any, values: Sequence[Any], *, name: str) -> list[Row]:
        return await sync_to_async(fetch_rows)(sql, values)


def fetch_rows(sql: Any, values: Sequence[Any]) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        names = [column.name for column in cursor.description]
        return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]


@async_to_sync
async def count_hits(*hits: tuple[str, Visit]) -> list[Row | None]:
    """Count hits, each with its key, that come at once; return their links, None if not counted."""
    sessions = DjangoSessions()
    counter = HitCounter(sessions.count_keys, sessions.count_key, queue_timeout=LONG)
    return await asyncio.gather(*[counter.count(key, visit) for key, visit in hits])
