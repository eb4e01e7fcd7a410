"""Whether a thread waits in Python for another process, which is at its step.

Python does not say for what a thread waits. The instruction at which it stands does: a call of
`acquire` or `flock`, the beginning of a `with`, or the wait of a condition, by which semaphores,
events and queues wait.
"""

import ast
import contextlib
import linecache
import threading
from types import FrameType
from typing import Any

LOCKS = (type(threading.Lock()), type(threading.RLock()))
IN_PYTHON = "a lock, queue or event of Python"
FILE_LOCK = "a file lock"
WITH_THREADS = ("asgiref", "asyncio", "concurrent")  # wait for threads of their own
METHODS = ("acquire", "__enter__")
PLAIN = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Load)  # run no other code


def find_wait(frame: FrameType | None) -> str:
    """Return for what a thread with this innermost frame waits, or "": IN_PYTHON or FILE_LOCK.

    A wait for a thread that works for the process, such as asgiref's, is none.
    """
    if frame is None or frame.f_code.co_name == "_wait_for_tstate_lock":  # Thread.join() up to 3.12
        return ""
    if frame.f_code is threading.Condition.wait.__code__:
        return _find_wait_of_condition(frame)
    waits: list[str] = []
    with contextlib.suppress(Exception):  # the source is missing, or has changed
        waits = [_find_wait_at(expression, frame) for expression in _list_expressions(frame)]
    return next(filter(None, waits), "")


def _find_wait_of_condition(frame: FrameType | None) -> str:
    while frame and frame.f_globals.get("__name__") in ("threading", "queue"):
        if frame.f_code is threading.Thread.start.__code__:
            return ""
        frame = frame.f_back
    name = frame.f_globals.get("__name__", "") if frame else ""
    return "" if name.partition(".")[0] in WITH_THREADS else IN_PYTHON


def _is_held(lock: Any) -> bool:
    is_free: bool = lock.acquire(blocking=False)
    if is_free:
        lock.release()
    return not is_free


def _list_expressions(frame: FrameType) -> list[ast.expr]:
    """Return what the present instruction calls, or may acquire as a part of a `with`."""
    source = _read_source(frame)
    if source.startswith("with "):  # up to Python 3.12
        statement: Any = ast.parse(source).body[0]
        return [item.context_expr for item in statement.items]
    return [ast.parse(f"({source})", mode="eval").body]


def _find_wait_at(expression: ast.expr, frame: FrameType) -> str:
    """Return for what a thread waits that evaluates an expression, or begins a `with` of it.

    Only names, attributes and subscripts are evaluated here: a second call would have effects.
    """
    named = expression.func if isinstance(expression, ast.Call) else expression
    if not all(isinstance(node, PLAIN) for node in ast.walk(named)):
        return ""
    value = eval(ast.unparse(named), frame.f_globals, dict(frame.f_locals))  # noqa: S307
    if named is not expression:  # it is a call
        if (value.__module__, value.__name__) == ("fcntl", "flock"):
            return FILE_LOCK
        value = value.__self__ if value.__name__ in METHODS else None
    return IN_PYTHON if isinstance(value, LOCKS) and _is_held(value) else ""


def _read_source(frame: FrameType) -> str:
    """Return the source of the present instruction."""
    code = frame.f_code
    first, last, begin, end = [*code.co_positions()][frame.f_lasti // 2]
    lines = linecache.getlines(code.co_filename, frame.f_globals)[(first or 1) - 1 : last]
    encoded = [line.encode() for line in lines]  # columns count bytes
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][begin:]
    return b"".join(encoded).decode()
