"""Whether a thread waits for a lock of Python, which another process holds at its step.

Python does not say for which lock a thread waits. The instruction at which it stands does: a call
of `acquire`, or the beginning of a `with`.
"""

import ast
import contextlib
import linecache
import threading
from types import FrameType
from typing import Any

LOCKS = (type(threading.Lock()), type(threading.RLock()))
METHODS = ("acquire", "__enter__")
PLAIN = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Load)  # run no other code


def waits_for_lock(frame: FrameType | None) -> bool:
    """Whether the innermost frame of a thread is at the acquisition of a lock that is held.

    A wait for an event or a future is none: another thread may be at work for it.
    """
    if frame is None or frame.f_code.co_name == "wait":
        return False
    locks: list[Any] = []
    with contextlib.suppress(Exception):  # the source is missing, or has changed
        locks = [_evaluate(expression, frame) for expression in _list_expressions(frame)]
    return any(_is_held(lock) for lock in locks if isinstance(lock, LOCKS))


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


def _evaluate(expression: ast.expr, frame: FrameType) -> Any:
    """Return the object of an expression, or of the method that it calls; None for any other."""
    is_call = isinstance(expression, ast.Call)
    named = expression.func if isinstance(expression, ast.Call) else expression
    if not all(isinstance(node, PLAIN) for node in ast.walk(named)):
        return None
    value = eval(ast.unparse(named), frame.f_globals, dict(frame.f_locals))  # noqa: S307
    if not is_call:
        return value
    return value.__self__ if value.__name__ in METHODS else None


def _read_source(frame: FrameType) -> str:
    """Return the source of the present instruction."""
    code = frame.f_code
    first, last, begin, end = [*code.co_positions()][frame.f_lasti // 2]
    lines = linecache.getlines(code.co_filename, frame.f_globals)[(first or 1) - 1 : last]
    encoded = [line.encode() for line in lines]  # columns count bytes
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][begin:]
    return b"".join(encoded).decode()
