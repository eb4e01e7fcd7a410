"""Refuses model instances that several processes would share, and says what to do instead."""

import contextlib
import threading
import types
import weakref
from collections.abc import Iterator
from typing import Any

from django.db.models import Model
from django.db.models.signals import pre_delete, pre_save

from pginterleave.explorer_errors import CannotExplore


class Savers:
    """Refuses that two processes save or delete one object, wherever it is kept."""

    def __init__(self) -> None:
        self._local = threading.local()  # its attribute `run` is the run of the thread's process
        self._runs: dict[int, tuple[weakref.ref[Any], object]] = {}  # by the id of the instance
        for signal in (pre_save, pre_delete):
            signal.connect(self._note_use)

    @contextlib.contextmanager
    def run_process(self) -> Iterator[None]:
        """Enter to run a function once, as a process."""
        self._local.run = object()
        try:
            yield
        finally:
            self._local.run = None

    def _note_use(self, instance: Any, **_: object) -> None:
        run = getattr(self._local, "run", None)
        if run is None:
            return
        reference, last_run = self._runs.get(id(instance), (None, run))
        is_the_same = reference is not None and reference() is instance
        if is_the_same and last_run is not run:
            raise CannotExplore(
                f"{_describe(instance)} with the primary key {instance.pk!r} is saved or deleted "
                "by several processes, which share the object: load it in the function."
            )
        self._runs[id(instance)] = weakref.ref(instance), run


def require_unchanged(instance: Any, name: str) -> None:
    """Raise CannotExplore if an instance is not saved, or differs from its row."""
    shared = f"{name} is {_describe(instance)}"
    if instance._state.adding or instance.pk is None:
        raise CannotExplore(
            f"{shared} that is not saved, and the processes would share it: make it in the "
            "function, or save it before."
        )
    row = type(instance)._base_manager.using(instance._state.db).filter(pk=instance.pk).first()
    loaded = [field for field in instance._meta.concrete_fields if field.attname in vars(instance)]
    for field in loaded if row else ():
        with contextlib.suppress(TypeError, ValueError):  # such as an expression, which is no value
            value = field.to_python(field.value_from_object(instance))
            value_of_row = field.value_from_object(row)
            if value == value_of_row:
                continue
            raise CannotExplore(
                f"{shared} whose {field.name} is {value!r}, and {value_of_row!r} in the database. "
                "Each process loads it again: call its save() or refresh_from_db() before."
            )


def refuse_globals(function: types.FunctionType, seen: set[int]) -> None:
    """Raise CannotExplore if a function uses a model instance that is a variable of its module."""
    seen.add(id(function))
    for name in sorted(_list_global_names(function.__code__)):
        value: Any = function.__globals__.get(name)
        if isinstance(value, types.FunctionType) and id(value) not in seen:
            if value.__globals__ is function.__globals__:
                refuse_globals(value, seen)
        elif issubclass(type(value), Model):
            raise CannotExplore(
                f"{function.__qualname__}() uses {name}, {_describe(value)} in a variable of the "
                f"module {function.__module__}, which the processes would share: load it in the "
                f"function, as by {type(value).__name__}.objects.get(pk={value.pk!r})."
            )


def _list_global_names(code: types.CodeType) -> set[str]:
    """Return the names in a function's code, and in that of functions in it."""
    inner = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*map(_list_global_names, inner))


def _describe(instance: Any) -> str:
    name = type(instance).__name__
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


savers = Savers()
