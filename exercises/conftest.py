"""The fixture `interleave` as the exercises have it: what it refuses, it says in one sentence."""

import builtins
import os
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from exercises.judging import LIMITS, judged
from pginterleave.pytest_plugin import Interleave

HERE = str(Path(__file__).parent)


@pytest.fixture
def interleave(interleave: Interleave, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Explore with limits for a function that may never end, each process as one of its own.

    The processes are threads. As in processes of their own, hash() differs between two of them, and
    so does os.getpid(). operations.resolve() counts by itself: the strategy `combined` would
    share batches among threads.
    """
    interleave.defaults |= LIMITS
    own_hash, own_pid = builtins.hash, os.getpid

    def seed() -> int:
        name = threading.current_thread().name  # "process 1"
        return int(name[-1]) if name.startswith("process ") else 0

    def hashed(value: object) -> int:
        ours = sys._getframe(1).f_code.co_filename.startswith(HERE)
        another_seed = ours and seed() and seed() % 2 == 0
        return ~own_hash(value) if another_seed else own_hash(value)  # in reverse order, too

    monkeypatch.setattr(builtins, "hash", hashed)
    monkeypatch.setattr(os, "getpid", lambda: own_pid() + seed())
    with override_settings(SHORTURL_RESOLVING="update_returning"):
        yield partial(judged, interleave)
