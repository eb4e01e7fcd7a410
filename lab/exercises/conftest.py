"""The fixture `interleave` of the exercises: it explains each refusal in one sentence."""

import builtins
import os
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab.exercises.judging import LIMITS, judged
from pginterleave.pytest_plugin import Interleave

HERE = str(Path(__file__).parent)


@pytest.fixture
def interleave(interleave: Interleave, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Explore with limits, because a solution may never end.

    The processes are threads. hash() and os.getpid() differ between them, as between processes of
    the operating system.
    """
    interleave.defaults |= LIMITS
    own_hash, own_pid = builtins.hash, os.getpid

    def seed() -> int:
        name = threading.current_thread().name  # "process 1"
        return int(name[-1]) if name.startswith("process ") else 0

    def hashed(value: object) -> int:
        ours = sys._getframe(1).f_code.co_filename.startswith(HERE)
        another_seed = ours and seed() and seed() % 2 == 0
        return ~own_hash(value) if another_seed else own_hash(value)  # reverses a sort by hash, too

    monkeypatch.setattr(builtins, "hash", hashed)
    monkeypatch.setattr(os, "getpid", lambda: own_pid() + seed())
    return partial(judged, interleave)
