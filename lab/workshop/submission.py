"""A function of the user's own, as a process of a service that runs it has it."""

import importlib.util
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from django.db.backends.signals import connection_created
from django.db.models.base import ModelBase
from django.test.utils import override_settings

from lab.workshop.own_state import everything_of_its_own, forget_caches
from lab.workshop.python_names import warnings

PATIENCE = 0.2  # seconds for a thread that a call has started, to end


class Submission:
    """What was handed in to be judged, and what it does that no schedule shows.

    `path` is the name it was handed in by, package.module:function, and `warnings` are what to know
    of what it uses of Python's. After a call, `drew` says whether it has used the candidate keys
    that it was handed, and `connected` whether it has opened a database connection of its own, in a
    thread of its own or not.
    """

    def __init__(self, path: str, function: Callable[..., Any]) -> None:
        self.path = path
        self.function: Callable[..., Any] = function
        self.warnings = warnings(function)
        self.drew = self.connected = False
        self._copies: dict[int, Callable[..., Any]] = {}
        self._module = sys.modules.get(function.__module__ or "")
        self._judges_thread = threading.current_thread()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as this process has it, and wait for the threads that it starts."""
        if "keys" in kwargs:
            kwargs["keys"] = CandidateKeys(kwargs["keys"], self)
        before = set(threading.enumerate())
        try:
            process = threading.get_ident()
            if process not in self._copies:
                self._copies[process] = self._as_another_process_has_it()
            return self._copies[process](*args, **kwargs)
        finally:
            for thread in set(threading.enumerate()) - before:
                thread.join(PATIENCE)

    def start_anew(self) -> None:
        """Forget what each process has in Python, as if all had just been started."""
        self._copies.clear()
        forget_caches()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Within the block, note each connection that it opens; processes share nothing else.

        What it may call resolves with one statement: threads of a process share the batches of
        the strategy `combined`, and the processes of an exploration, which are threads, must not.
        """
        connection_created.connect(self._note)
        try:
            with (
                override_settings(SHORTURL_RESOLVING="update_returning"),
                everything_of_its_own(self._module),
            ):
                yield
        finally:
            connection_created.disconnect(self._note)

    def _note(self, connection: Any, **_: Any) -> None:
        watched = getattr(connection, "session", None)  # the explorer's
        if watched is None and threading.current_thread() is not self._judges_thread:
            self.connected = True

    def _as_another_process_has_it(self) -> Callable[..., Any]:
        """Return the function from a new copy of its module: processes share nothing in Python.

        A module that defines models is not copied, as Django has each model once.
        """
        module, name = self._module, self.path.replace(":", ".").rpartition(".")[2]
        own = module is not None and vars(module).get(name) is self.function
        if module is None or not own or has_models(module):
            return self.function
        spec = importlib.util.spec_from_file_location(module.__name__, module.__file__)
        if not spec or not spec.loader:
            return self.function
        copy = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(copy)
        function: Callable[..., Any] = getattr(copy, name)
        return function


class CandidateKeys:
    """Candidate keys, which tell the submission that it has drawn one."""

    def __init__(self, keys: Iterable[str], submission: Submission) -> None:
        self._keys, self._submission = keys, submission

    def __iter__(self) -> Iterator[str]:
        for key in self._keys:
            self._submission.drew = True
            yield key


def has_models(module: ModuleType) -> bool:
    """Return whether a Django model is defined in the module."""
    return any(
        isinstance(each, ModelBase) and each.__module__ == module.__name__
        for each in vars(module).values()
    )
