"""Finds model instances that several processes share, and says what to do instead."""

import contextlib
import contextvars
import functools
import types
import weakref
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from django.core.exceptions import ValidationError
from django.db.models import Model
from django.db.models.signals import pre_save

from pginterleave.explorer_errors import CannotExplore

SET_BY_DJANGO = ("last_login",)  # by a login, which the test's own object does not see
CACHED_BY_DJANGO = ("django.contrib.contenttypes.models", "django.contrib.sites.models")


class SharedObjects:
    """Notes which instances several processes read, and refuses that they save or delete one.

    It finds them wherever they are kept: in a cache, a variable of a module, or a Mock. `read` has
    a description of each one. A run is one call of a process's function; two runs share no object.
    """

    def __init__(self) -> None:
        self.read: dict[str, None] = {}
        # A context, as async code runs in other threads.
        self._run = contextvars.ContextVar[object]("run", default=None)
        self._first_runs: dict[int, tuple[weakref.ref[Any], object]] = {}  # by the instance's id
        pre_save.connect(self._refuse_saving)

    @contextlib.contextmanager
    def run_process(self) -> Iterator[None]:
        """Enter to run a function once, as a process."""
        token = self._run.set(object())
        try:
            yield
        finally:
            self._run.reset(token)

    @contextlib.contextmanager
    def watch_reads(self) -> Iterator[None]:
        """Enter to note the instances of which several runs read a field, but for the key.

        A deletion is seen by its method: with a receiver of pre_delete, Django would read the rows
        of each QuerySet.delete() before it deletes them.
        """

        def note_and_get(instance: Any, name: str) -> Any:
            model: Any = type(instance)
            is_field_in_a_run = self._run.get() and name in _list_field_names(model)
            if is_field_in_a_run and self._is_shared(instance):
                self.read[_describe_with_key(instance)] = None
            return object.__getattribute__(instance, name)

        delete = Model.delete

        @functools.wraps(delete)
        def refuse_or_delete(instance: Any, *args: Any, **options: Any) -> Any:
            self._refuse_saving(instance)
            return delete(instance, *args, **options)

        self.read = {}
        self._first_runs = {}
        with (
            patch.object(Model, "__getattribute__", note_and_get),
            patch.object(Model, "delete", refuse_or_delete),
        ):
            yield

    def list_limits(self) -> list[str]:
        return [f"{name}, which the processes share: load it in the function" for name in self.read]

    def _refuse_saving(self, instance: Any, **_: object) -> None:
        if self._run.get() and self._is_shared(instance):
            raise CannotExplore(
                f"{_describe_with_key(instance)} is saved or deleted by several processes, which "
                "share the object: load it in the function."
            )

    def _is_shared(self, instance: Any) -> bool:
        """Whether another run than this one was the first to use an instance."""
        run = self._run.get()
        reference, first_run = self._first_runs.get(id(instance), (None, run))
        if reference is None or reference() is not instance:
            self._first_runs[id(instance)] = weakref.ref(instance), run
            return False
        return first_run is not run


@functools.cache
def _list_field_names(model: type[Any]) -> frozenset[str]:
    """Return the names of a model's fields, but for its key, which an object keeps."""
    if model.__module__ in CACHED_BY_DJANGO:
        return frozenset()
    fields = model._meta.concrete_fields
    return frozenset(field.attname for field in fields if not field.primary_key)


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
    loaded = [field for field in loaded if not field.generated and field.name not in SET_BY_DJANGO]
    for field in loaded if row else ():
        # An expression is no value.
        with contextlib.suppress(TypeError, ValueError, ValidationError):
            value = field.to_python(field.value_from_object(instance))
            value_of_row = field.value_from_object(row)
            if value == value_of_row:
                continue
            raise CannotExplore(
                f"{shared} whose {field.name} is {value!r}, and {value_of_row!r} in the database. "
                "Each process loads it again: call its refresh_from_db() before, or its save()."
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


def _describe_with_key(instance: Any) -> str:
    return f"{_describe(instance)} with the primary key {instance.pk!r}"


shared_objects = SharedObjects()
