"""What a function holds: the objects that it reaches besides the variables of its module."""

import contextlib
import functools
import sys
from types import FunctionType, MappingProxyType, MethodType
from typing import Any

FUNCTION_OF_PARTIAL = "()"  # as the name of a part
Parts = dict[str, Any]  # the parts of a value, by their names


def list_parts(value: Any) -> Parts:
    """Return the parts of a function, a method or a partial; {} for another value."""
    kind = type(value)  # isinstance() would believe a Mock
    if kind is FunctionType:
        return list_defaults(value) | (value.__kwdefaults__ or {}) | _list_cells(value)
    if kind is MethodType:
        return {f"the object of {value.__func__.__qualname__}": value.__self__}
    if issubclass(kind, functools.partial):
        arguments = {f"argument {n}": part for n, part in enumerate(value.args, start=1)}
        return {FUNCTION_OF_PARTIAL: value.func, **arguments, **value.keywords}
    return {}


def list_defaults(function: FunctionType) -> Parts:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    return dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))


def _list_cells(function: FunctionType) -> Parts:
    """Return what a function uses of the functions that it is in, by the names there."""
    contents = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it is empty
            contents[name] = cell.cell_contents
    return contents


def read_attributes(value: Any) -> Parts:
    """Return a copy of the `__dict__` of an object, a class or a module; {} if it has none."""
    attributes = getattr(value, "__dict__", None)  # of some objects a __getattr__ makes it
    return attributes.copy() if isinstance(attributes, (dict, MappingProxyType)) else {}


def write_path(path: tuple[str, ...]) -> str:
    """Write the way to a part: item, self.item, items[0], the object of Item.sell."""
    names = [name for name in path if name != FUNCTION_OF_PARTIAL]
    first, *others = names or ["what a process calls"]
    return first + "".join(name if name[0] == "[" else f".{name}" for name in others)


def find_class_file(value: Any) -> str | None:
    """Return the file of the module that has an object's class; None of a built-in class."""
    return getattr(sys.modules.get(type(value).__module__), "__file__", None)
