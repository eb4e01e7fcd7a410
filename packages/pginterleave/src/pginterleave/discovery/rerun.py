"""Runs tests once more, without a transaction and without a report.

This is the one file of the discovery that uses names of pytest's that are not public: a test that
runs again, as plugins for flaky tests do, has no public function.
"""

import contextlib
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from _pytest.runner import runtestprotocol
from django.conf import settings
from django.core.management.commands import flush
from django.db import connections
from django.test import override_settings

FAST_HASHER = "django.contrib.auth.hashers.MD5PasswordHasher"  # a slow one hides the rest


class AfterTheTests(pytest.Item):
    """A child of the session: only the fixtures of the session are left before it."""

    def runtest(self) -> None:
        raise NotImplementedError("it never runs")


def run_again(item: pytest.Item) -> None:
    """Run a test with all fixtures but those of the session; nothing is reported or counted."""
    runtestprotocol(item, log=False, nextitem=AfterTheTests.from_parent(item.session, name="again"))


def tear_down_session(item: pytest.Item) -> None:
    """End the fixtures of the session, and report an error as one of the last test."""
    state = item.session._setupstate
    call = pytest.CallInfo.from_call(lambda: state.teardown_exact(None), "teardown")
    if call.excinfo:
        report = item.ihook.pytest_runtest_makereport(item=item, call=call)
        item.ihook.pytest_runtest_logreport(report=report)


@contextlib.contextmanager
def without_transactions() -> Iterator[None]:
    """Enter to run tests whose rows are visible to others: who enters puts them back.

    Django takes a database without transactions as a reason to run a TestCase like a
    TransactionTestCase, and that one would empty all tables at its end.
    """
    hashers = [FAST_HASHER, *(name for name in settings.PASSWORD_HASHERS if name != FAST_HASHER)]
    with contextlib.ExitStack() as stack:
        for connection in connections.all():
            features = connection.features
            stack.enter_context(patch.object(features, "supports_transactions", False))
        stack.enter_context(patch.object(flush.Command, "handle", lambda *_, **__: None))
        stack.enter_context(override_settings(PASSWORD_HASHERS=hashers))
        yield
