"""`--interleave-calls shop.services.redeem`: the calls of a function are explored like requests."""

import contextlib
import functools
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest

from pginterleave.discovery.candidates import Candidate, Listener
from pginterleave.django.own_objects import own_objects


@contextlib.contextmanager
def watch_calls(name: str, listener: Callable[[], Listener]) -> Iterator[None]:
    """Enter to tell the present listener of every call of a function, a method or a task.

    Modules that have imported the function by `from … import` are changed, too.
    """
    owner_name, _, attribute = name.rpartition(".")
    try:
        owner = pkgutil.resolve_name(owner_name)
        function = inspect.getattr_static(owner, attribute)
    except (ValueError, ImportError, AttributeError) as error:
        raise pytest.UsageError(f"--interleave-calls {name}: {error}") from None
    if callable(getattr(function, "run", None)):  # a task of Celery, which calls its run()
        owner, attribute, function = function, "run", function.run
    plain = getattr(function, "__func__", function)  # of a classmethod or staticmethod
    if not callable(plain) or inspect.iscoroutinefunction(plain):
        raise pytest.UsageError(f"--interleave-calls {name}: it is no function, or it is async.")

    @functools.wraps(plain)
    def tell_and_call(*args: Any, **kwargs: Any) -> Any:
        run = own_objects(functools.partial(plain, *args, **kwargs))
        candidate = Candidate(f"{name}()", run)
        listener().explore(candidate)
        with listener().note(candidate) as answers:
            returned = plain(*args, **kwargs)
            answers.append(returned)
        return returned

    replacement: Any = tell_and_call
    if isinstance(function, (classmethod, staticmethod)):
        replacement = type(function)(replacement)
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.object(owner, attribute, replacement))
        for module in [*sys.modules.values()]:
            names = [key for key, value in vars(module).items() if value is function]
            for key in names:
                stack.enter_context(patch.dict(vars(module), {key: replacement}))
        yield
