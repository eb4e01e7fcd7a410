"""The names of pytest, pytest-django, Django and Python that are not public.

No other file of this folder has any. Outside of it, the explorer reads the frames of threads by
`sys._getframe` and `sys._current_frames`, which Python documents, and opens connections by
`psycopg2._connect`.

A test that runs again, as plugins for flaky tests do, has no public function.
"""

import contextlib
import random
import sys
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any
from unittest.mock import patch

import pytest
from _pytest.runner import runtestprotocol
from django.conf import settings
from django.core.cache import caches
from django.core.cache.backends.locmem import LocMemCache
from django.core.files.storage import InMemoryStorage, storages
from django.core.signals import got_request_exception
from pytest_django.plugin import blocking_manager_key

# What a request of Django's keeps when its body is read.
OF_THE_BODY = frozenset(("_body", "_post", "_files", "_read_started", "_stream"))
ERROR_OF_VIEW = "error_of_view"  # an attribute of the copy of a request


class AfterTheTests(pytest.Item):
    """A child of the session: only the fixtures of the session are left before it."""

    def runtest(self) -> None:
        raise NotImplementedError("it never runs")


def run_again(item: pytest.Item) -> None:
    """Run a test with all fixtures but those of the session; nothing is reported or counted."""
    after = AfterTheTests.from_parent(item.session, name="again")
    try:
        runtestprotocol(item, log=False, nextitem=after)
    finally:
        item.session._setupstate.teardown_exact(after)  # for Ctrl-C, after which it is not done


def leave_debugger(config: pytest.Config) -> None:
    """Let no further test stop in the debugger of --pdb or --trace."""
    config.option.usepdb = False
    for name in ("pdbinvoke", "pdbtrace"):
        if config.pluginmanager.hasplugin(name):
            config.pluginmanager.unregister(name=name)


def tear_down_session(item: pytest.Item) -> None:
    """End the fixtures of the session, and report an error as one of the last test."""
    state = item.session._setupstate
    call = pytest.CallInfo.from_call(lambda: state.teardown_exact(None), "teardown")
    if call.excinfo:
        report = item.ihook.pytest_runtest_makereport(item=item, call=call)
        item.ihook.pytest_runtest_logreport(report=report)


def allow_database(config: pytest.Config) -> contextlib.AbstractContextManager[None]:
    """Return what is entered to use the database outside of tests."""
    return config.stash[blocking_manager_key].unblock()


@contextlib.contextmanager
def keep_exceptions_from_clients() -> Iterator[None]:
    """Enter to explore: the request gets an exception of its view, as ERROR_OF_VIEW.

    Django tells it to every client with a request, and so to those of the test.
    """

    def note(request: Any = None, **_: Any) -> None:
        if request is not None:
            setattr(request, ERROR_OF_VIEW, sys.exc_info()[1])

    signal = got_request_exception
    with patch.object(signal, "receivers", []):
        signal.sender_receivers_cache.clear()
        signal.connect(note)
        yield
    signal.sender_receivers_cache.clear()


def list_memories() -> list[MutableMapping[str, Any]]:
    """Return the dictionaries that caches and storages in memory consist of."""
    memories: list[MutableMapping[str, Any]] = []
    for cache in [caches[alias] for alias in settings.CACHES]:
        if isinstance(cache, LocMemCache):
            memories += [cache._cache, cache._expire_info]  # type: ignore[attr-defined]
    for storage in [storages[alias] for alias in settings.STORAGES if alias != "staticfiles"]:
        if isinstance(storage, InMemoryStorage):
            memories.append(storage._root._children)  # type: ignore[attr-defined]
    return memories


@contextlib.contextmanager
def replace_entropy(draw: Callable[[int], bytes]) -> Iterator[None]:
    """Enter to have `secrets`, SystemRandom and the functions of `random` draw from a function."""
    generator: Any = random._inst
    of_entropy = random.SystemRandom()
    with (
        patch.object(random, "_urandom", draw),
        patch.object(random, "random", of_entropy.random),
        patch.object(random, "getrandbits", of_entropy.getrandbits),
    ):
        generator.__class__ = random.SystemRandom
        try:
            yield
        finally:
            generator.__class__ = random.Random
