"""Waiting for a condition, with an end."""

import time
from collections.abc import Callable

POLL_INTERVAL = 0.02  # seconds


def wait_until(condition: Callable[[], object], problem: str, timeout: float) -> float:
    """Wait until `condition`; return the seconds. Raise TimeoutError with `problem`."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() > began + timeout:
            raise TimeoutError(f"{problem} within {timeout:.0f} s")
        time.sleep(POLL_INTERVAL)
    return time.monotonic() - began
