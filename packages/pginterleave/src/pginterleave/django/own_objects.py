"""Each process loads the model instances of the test anew, as a request does.

`interleave(item.sell)` would otherwise share `item`, and no process would read its row.
"""

import contextlib
import copy
import functools
import types
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import NonCallableMock

from asgiref.sync import AsyncToSync
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.functional import LazyObject

from pginterleave.django import shared_objects
from pginterleave.explorer_errors import CannotExplore
from pginterleave.formatting import is_user_code
from pginterleave.processes.parts import (
    Parts,
    find_class_file,
    list_defaults,
    list_parts,
    read_attributes,
    write_path,
)

MAX_DEPTH = 5  # of objects in objects that are looked at
MAX_ENTRIES = 1_000  # a larger container is not looked at
CONTAINERS = (dict, list, tuple, set, frozenset)
Path = tuple[str, ...]  # the names of the parts that lead to an object


class OwnObjects:
    """A function that loads what it holds of the test's rows anew, whenever it is called.

    It holds them as the object of a method, in a closure, as a default, as an argument of a
    partial, or as attributes of such an object; in lists, dicts, sets and tuples; and in requests.
    Each call begins with a SELECT for each of them. A QuerySet is sent again. The test's own
    objects stay as they are, and so does everything that holds no row, such as a list of results.
    """

    def __init__(self, function: Callable[[], object]) -> None:
        self.function = function
        self._paths: set[Path] | None = None  # to the instances, and to what they are in

    def look(self) -> None:
        """Find the objects, once: after the first `setup`, which may have made some.

        Raises CannotExplore for one that is not saved, or that differs from its row.
        """
        if self._paths is None:
            self._paths = {
                path[:length]
                for path in _find_objects(self.function, (), set())
                for length in range(len(path) + 1)
            }

    def __call__(self) -> Any:
        self.look()
        function = _Replacement(self._paths or set()).replace(self.function, ())
        with shared_objects.shared_objects.run_process():
            return function()


def own_objects(function: Callable[[], object]) -> OwnObjects:
    """Return a function that does the same with objects of its own: see `OwnObjects`."""
    return function if isinstance(function, OwnObjects) else OwnObjects(function)


def give_own_objects(
    functions: Sequence[Callable[[], object]], setup: Callable[[], object]
) -> tuple[tuple[Callable[[], object], ...], Callable[[], None]]:
    """Return the functions with objects of their own, and a setup that looks for these at first."""
    owning = {id(function): own_objects(function) for function in functions}

    def set_up_and_look() -> None:
        setup()
        for function in owning.values():
            function.look()

    return tuple(owning[id(function)] for function in functions), set_up_and_look


def load_again(instance: Any) -> Any:
    """Return a saved instance as its row is now, with its attributes that are no fields.

    What was deferred stays deferred. If the row is gone, the instance has its primary key alone,
    and raises DoesNotExist when something else is read.
    """
    model = type(instance)
    using = instance._state.db
    rows = model._base_manager.using(using).filter(pk=instance.pk)
    loaded = rows.defer(*instance.get_deferred_fields()).first()
    if loaded is None:
        loaded = model.from_db(using, [model._meta.pk.attname], [instance.pk])
    for name, value in vars(instance).items():
        attribute = getattr(model, name, None)  # of a field or a cached property, a descriptor
        if attribute is None and not name.startswith("_"):
            setattr(loaded, name, value)
    return loaded


def _find_objects(value: Any, path: Path, empty: set[int]) -> list[Path]:
    """Return the paths to the instances and querysets in a value; add what has none to `empty`."""
    kind = type(value)  # isinstance() would load a lazy object
    if issubclass(kind, QuerySet):
        return [path]
    if issubclass(kind, Model):
        shared_objects.require_unchanged(value, write_path(path))
        return [path]
    if id(value) in empty or len(path) > MAX_DEPTH:
        return []
    empty.add(id(value))  # until a part of it is found
    if isinstance(value, types.FunctionType) and not isinstance(value, NonCallableMock):
        shared_objects.refuse_globals(value, set())
    parts = _list_parts(value).items()
    found = [each for name, part in parts for each in _find_objects(part, (*path, name), empty)]
    if found:
        empty.discard(id(value))
    return found


def _list_parts(value: Any) -> Parts:
    """Return the parts of a value that may be, or hold, a model instance."""
    if issubclass(type(value), LazyObject):
        return {**vars(value)}
    if isinstance(value, CONTAINERS):
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        return {f"[{key!r}]": part for key, part in entries} if len(value) < MAX_ENTRIES else {}
    return list_parts(value) or (_list_attributes(value) if _may_hold_rows(value) else {})


def _list_attributes(value: Any) -> Parts:
    """Return the attributes of an object, and those of its class that are instances of models."""
    attributes: Parts = {}
    for kind in reversed(type(value).__mro__):
        of_class = vars(kind).items()
        attributes |= {name: part for name, part in of_class if issubclass(type(part), Model)}
        slots = kind.__dict__.get("__slots__", ())
        slots = (slots,) if isinstance(slots, str) else tuple(slots)
        attributes |= {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return attributes | read_attributes(value)


def _may_hold_rows(value: Any) -> bool:
    """Whether a value is an object of the project, or a request; a mock or a class is neither."""
    if isinstance(value, (type, types.ModuleType, NonCallableMock)):
        return False
    if isinstance(value, (types.SimpleNamespace, HttpRequest, AsyncToSync)):
        return True
    path = find_class_file(value) or "<frozen"
    return is_user_code(path) and "pytest" not in path


class _Replacement:
    """Copies what leads to the instances at some paths, and loads these again, each once."""

    def __init__(self, paths: set[Path]) -> None:
        self.paths = paths
        self.replaced: dict[int, Any] = {}  # by the id of the original

    def replace(self, value: Any, path: Path) -> Any:
        """Return the replacement of the value at a path; elsewhere the value itself."""
        new: Any
        if path not in self.paths:
            return value
        if id(value) in self.replaced:
            return self.replaced[id(value)]
        # _copy_object() and _copy_function() add the copy to `replaced` before its parts, which may
        # lead back to it.
        if issubclass(type(value), LazyObject):
            return self._copy_object(value, path)
        if isinstance(value, types.FunctionType):
            return self._copy_function(value, path)
        if issubclass(type(value), Model):
            new = load_again(value)
        elif isinstance(value, QuerySet):
            new = value.all()
        elif isinstance(value, types.MethodType):
            new = types.MethodType(value.__func__, *self._replace_parts(value, path).values())
        elif isinstance(value, functools.partial):
            parts = self._replace_parts(value, path)
            keywords = {name: parts.pop(name) for name in value.keywords}
            function, *arguments = parts.values()
            new = functools.partial(function, *arguments, **keywords)
        elif isinstance(value, types.SimpleNamespace):
            new = types.SimpleNamespace(**self._replace_parts(value, path))
        elif isinstance(value, dict):
            new = copy.copy(value)
            new.update(zip(value, self._replace_parts(value, path).values(), strict=True))
        elif isinstance(value, CONTAINERS):
            entries = self._replace_parts(value, path).values()
            make: Any = type(value)
            new = make(*entries) if hasattr(value, "_fields") else make(entries)  # a namedtuple
        else:
            return self._copy_object(value, path)
        self.replaced[id(value)] = new
        return new

    def _replace_parts(self, value: Any, path: Path) -> Parts:
        parts = _list_parts(value).items()
        return {name: self.replace(part, (*path, name)) for name, part in parts}

    def _copy_function(self, value: types.FunctionType, path: Path) -> types.FunctionType:
        """Copy a function with new cells for what is replaced; the other cells are the same."""
        names = value.__code__.co_freevars
        cells = dict(zip(names, value.__closure__ or (), strict=True))
        cells |= {name: types.CellType() for name in names if (*path, name) in self.paths}
        new = types.FunctionType(
            value.__code__, value.__globals__, value.__name__, closure=tuple(cells.values())
        )
        self.replaced[id(value)] = new  # before its parts, which may call it
        new.__qualname__ = value.__qualname__
        vars(new).update(vars(value))
        parts = self._replace_parts(value, path)
        new.__defaults__ = tuple(parts[name] for name in list_defaults(value)) or None
        new.__kwdefaults__ = {name: parts[name] for name in value.__kwdefaults__ or ()} or None
        for name in names:
            if (*path, name) in self.paths:
                cells[name].cell_contents = parts[name]
        return new

    def _copy_object(self, value: Any, path: Path) -> Any:
        """Copy an object, with its attributes; the body of a request is read first."""
        if isinstance(value, HttpRequest):
            with contextlib.suppress(Exception):  # the test may have read it as a stream
                value.body  # noqa: B018
        try:
            self.replaced[id(value)] = new = object.__new__(type(value))
        except TypeError:  # it is of a class in C
            name = write_path(path)
            raise CannotExplore(
                f"{name} holds rows and cannot be copied: load them in the function."
            ) from None
        for name, part in _list_parts(value).items():
            object.__setattr__(new, name, self.replace(part, (*path, name)))
        return new
