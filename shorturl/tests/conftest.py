"""Fixtures that several tests of the service share."""

from collections.abc import Iterator
from contextlib import closing
from threading import Thread

import pytest
from django.db import connection
from django.db.backends.utils import CursorWrapper
from django.test import Client
from pytest_django import Settings

from shorturl.strategies.resolving import in_memory
from shorturl.tests.callers import with_token


@pytest.fixture(autouse=True)
def no_timer(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep the strategy in_memory from starting a thread, which would outlive the test."""
    monkeypatch.setattr(in_memory, "Timer", lambda *_: Thread())
    yield
    in_memory.HITS.waiting.clear()


@pytest.fixture
def public(settings: Settings) -> None:
    settings.SHORTURL_PUBLIC_CREATE = True


@pytest.fixture
def private(settings: Settings) -> None:
    settings.SHORTURL_PUBLIC_CREATE = settings.SHORTURL_PUBLIC_STATS = False


@pytest.fixture
def api(db: None) -> Client:
    """A program with a token of no user, which may do everything."""
    return with_token()


@pytest.fixture
def other_session(transactional_db: None) -> Iterator[CursorWrapper]:
    """Yield a cursor of another session."""
    with closing(connection.copy()) as other, other.cursor() as cursor:
        yield cursor
