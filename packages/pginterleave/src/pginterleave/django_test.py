"""For unittest: an assertion and a test case that restores rows. For processes: a test client."""

import threading
from typing import Any
from unittest import TestResult

from django.test import Client as DjangoClient
from django.test import SimpleTestCase, TestCase

from pginterleave.explorer_errors import CannotExplore
from pginterleave.results import Exploration
from pginterleave.testing import Interleave

__all__ = ["Client", "InterleaveMixin", "InterleaveTestCase"]


class InterleaveMixin(SimpleTestCase):
    """Adds `assertNoRace` to a TransactionTestCase."""

    interleave: Interleave

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "setUpTestData" in vars(cls) and not issubclass(cls, TestCase):
            raise CannotExplore(
                f"{cls.__qualname__}.setUpTestData() would never be called, as only a TestCase, in "
                "its transaction, calls it: make the rows in setUp()."
            )

    # Here the rows are put back after all cleanups, and a setUp() need not call super().
    def run(self, result: TestResult | None = None) -> TestResult | None:
        with self.new_interleave() as self.interleave:
            return super().run(result)

    def debug(self) -> None:
        with self.new_interleave() as self.interleave:
            super().debug()

    def new_interleave(self) -> Interleave:
        """Return what explores for the test; pytest_plugin.py gives it the options of pytest."""
        return Interleave()

    def assertNoRace(self, *functions: Any, **options: Any) -> Exploration:  # noqa: N802
        """Fail unless every schedule is right; return the result.

        The arguments and errors are those of the fixture: see `testing.Interleave.__call__`.
        """
        __tracebackhide__ = True
        return self.interleave(*functions, **options)


class InterleaveTestCase(InterleaveMixin):
    """A test case without a transaction; it restores the rows without emptying every table."""

    databases = "__all__"


class Client(DjangoClient):
    """Django's test client, which takes only an exception of its own request.

    Django passes the exception of a view to every client that is in the middle of a request.
    """

    _thread: threading.Thread | None = None

    def request(self, **request: Any) -> Any:
        self._thread = threading.current_thread()
        return super().request(**request)

    def store_exc_info(self, **kwargs: Any) -> None:
        if self._thread is threading.current_thread():
            super().store_exc_info(**kwargs)
