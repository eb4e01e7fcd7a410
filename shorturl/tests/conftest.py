"""What the tests of the form and of the API share."""

from collections.abc import Iterator
from threading import Thread

import pytest
from pytest_django import Settings

from shorturl.strategies.resolving import in_memory


@pytest.fixture(autouse=True)
def written_when_asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let what in_memory counts be written by a test, and not by a thread that outlives it."""
    monkeypatch.setattr(in_memory, "Timer", lambda *_: Thread())
    yield
    in_memory.HITS.waiting.clear()


@pytest.fixture
def public(settings: Settings) -> None:
    """Let anybody create."""
    settings.SHORTURL_PUBLIC_CREATE = True
