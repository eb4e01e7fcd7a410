"""The line of the code under test that sends a statement, also where asgiref comes between.

Async code sends its statements in the thread of `async_to_sync`, by a function to which the
coroutine hands them over. The coroutine that waits for that function knows the line.
"""

import asyncio
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from pginterleave.formatting import is_user_code


def find_calling_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the code under test, from this one outwards."""
    while frame and not is_user_code(frame.f_code.co_filename):
        if frame.f_code.co_qualname == "SyncToAsync.thread_handler":  # asgiref's
            variables = frame.f_locals
            if waiting := _find_waiting_frame(variables.get("loop"), variables.get("args")):
                return waiting
        elif frame.f_code.co_qualname == "AsyncToSync.__call__":
            waiting_frames = [*_list_frames(frame.f_locals.get("awaitable"))]
            for each in reversed(waiting_frames):
                if is_user_code(each.f_code.co_filename):
                    return each
        frame = frame.f_back
    return frame


def format_calling_place() -> str:
    """Return " at" the current line of the code under test; "" if that is not known."""
    frame = find_calling_frame(sys._getframe(1))
    if frame is None:
        return ""
    return f" at {frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_qualname})"


def _find_waiting_frame(loop: Any, arguments: Any) -> FrameType | None:
    """Return the frame of the coroutine that waits for the function with these arguments.

    What an async generator waits for is not known: with one task, it is this one.
    """
    user_frames = []
    for task in asyncio.all_tasks(loop) if loop else ():
        frames = [*_list_frames(task.get_coro())]
        of_user = [frame for frame in frames if is_user_code(frame.f_code.co_filename)]
        user_frames += of_user[-1:]
        child = frames[-1].f_locals.get("child") if frames else None  # in SyncToAsync.__call__
        if of_user and child is not None and child in (arguments or ()):
            return of_user[-1]
    return user_frames[0] if len(user_frames) == 1 else None


def _list_frames(coroutine: Any) -> Iterator[FrameType]:
    """Yield the frames of a coroutine and of those that it waits for."""
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame:
            yield frame
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
