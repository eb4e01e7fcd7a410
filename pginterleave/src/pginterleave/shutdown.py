"""The end of an exploration: no thread, session, lock or setting is left behind."""

import contextlib
import time

from pginterleave import queries
from pginterleave.control import Control
from pginterleave.formatting import process_names
from pginterleave.process import RUNNING, Process

FIRST_TIMEOUT = 0.1  # seconds for each thread to end by itself, of Control.close_timeout for all


def shut_down(processes: list[Process], control: Control, error: BaseException | None) -> None:
    """End the threads and sessions of the processes; note on `error` what could not be ended."""
    limit = time.monotonic() + control.close_timeout
    hanging = [process for process in processes if process.state == RUNNING]
    for process in processes:
        process.cancel()
    _terminate(hanging, control)
    for process in hanging:
        if not process.sending:  # the end of its session ends it otherwise
            process.interrupt()
    for process in processes:
        if process.thread.ident:
            process.thread.join(max(0.01, min(FIRST_TIMEOUT, limit - time.monotonic())))
    left = _alive(processes)
    _terminate(left, control)
    while left and time.monotonic() < limit:
        # A bare `except:` swallows this, but not when it comes between two rounds of its loop.
        for process in left:
            process.interrupt()
        left[0].thread.join(0.001)
        left = _alive(processes)
    control.restore()
    open_ = True
    with contextlib.suppress(control.database.Error):
        control.wait_until_closed(*(pid for process in processes for pid in process.pids))
        pids = [process.session.pid for process in left]
        open_ = bool(left and control.ask(queries.OPEN_SESSIONS, pids=pids))
    if left and error:
        error.add_note(
            f"The thread of {process_names([process.number for process in left])} could not be "
            "stopped: it is left behind as a daemon thread, and its database session "
            + ("may still be open." if open_ else "is closed.")
        )


def _alive(processes: list[Process]) -> list[Process]:
    return [process for process in processes if process.thread.is_alive()]


def _terminate(processes: list[Process], control: Control) -> None:
    control.terminate([pid for process in processes for pid in process.pids])
