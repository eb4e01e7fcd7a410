"""Which line of the code under test sent a statement or raised an exception."""

import contextlib
import functools
import importlib.util
import os
import sys
from pathlib import Path
from types import FrameType

OWN = str(Path(__file__).parent) + os.sep
STDLIB = str(Path(contextlib.__file__).parent) + os.sep


def _folder_of(package: str) -> str:
    """Return where a package lies, without importing it; a path of no file if it is not there."""
    spec = importlib.util.find_spec(package)
    return str(Path(spec.origin).parent) + os.sep if spec and spec.origin else f"<no {package}>"


@functools.cache
def _libraries() -> tuple[str, ...]:
    return (OWN, "<frozen", *map(_folder_of, ("django", "psycopg", "psycopg2")))


@functools.lru_cache(maxsize=4096)
def is_user_code(filename: str) -> bool:
    """Whether a file is neither the explorer's, nor Django's, nor the standard library's."""
    if filename.startswith(_libraries()):
        return False
    return not filename.startswith(STDLIB) or "-packages" in filename


def user_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the code under test, from this one outwards."""
    while frame and not is_user_code(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def place() -> str:
    """Return where the code under test is, to append to what it does; "" if that is not known."""
    frame = user_frame(sys._getframe(1))
    if frame is None:
        return ""
    return f" at {frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_qualname})"
