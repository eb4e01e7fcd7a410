"""`--interleave-calls shop.services.redeem`: the calls of a function are explored like requests."""

import contextlib
import functools
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from pginterleave.discovery.candidates import Candidate, Listener
from pginterleave.django.own_objects import own_objects


class NamedFunction(NamedTuple):
    """A function, and where it is: a module, a class or a task has it as an attribute."""

    owner: Any
    attribute: str
    function: Any


def find_function(name: str) -> NamedFunction:
    """Return the function, method or task of a name such as `shop.services.redeem`.

    Raises pytest.UsageError if there is none, or it is of a kind whose calls are not explored.
    """
    owner_name, _, attribute = name.rpartition(".")
    try:
        owner = pkgutil.resolve_name(owner_name)
        is_object = not isinstance(owner, (ModuleType, type))  # such as a manager
        function = (getattr if is_object else inspect.getattr_static)(owner, attribute)
    except (ValueError, ImportError, AttributeError) as error:
        text = f"no such function ({error}). A name begins with the module: shop.services.redeem"
        raise pytest.UsageError(f"--interleave-calls {name}: {text}.") from None
    if callable(getattr(function, "run", None)):  # a task of Celery, which calls its run()
        return NamedFunction(function, "run", function.run)
    plain = _get_plain(function)
    returns_later = (inspect.iscoroutinefunction, inspect.isgeneratorfunction)
    if not callable(plain) or isinstance(plain, type) or any(f(plain) for f in returns_later):
        text = "is no function or method, or it is async or a generator"
        raise pytest.UsageError(f"--interleave-calls {name}: {attribute} {text}.")
    return NamedFunction(owner, attribute, function)


def _get_plain(function: Any) -> Any:
    """Return the function of a classmethod or staticmethod; any other as it is."""
    return function.__func__ if isinstance(function, (classmethod, staticmethod)) else function


@contextlib.contextmanager
def watch_calls(name: str, listener: Callable[[], Listener]) -> Iterator[None]:
    """Enter to tell the present listener of every call of a function, a method or a task.

    Modules that have imported the function by `from … import` are changed, too.
    """
    owner, attribute, function = find_function(name)
    plain = _get_plain(function)

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
