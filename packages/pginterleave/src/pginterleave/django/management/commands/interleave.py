"""`manage.py interleave`: runs one test that explores, draws the result, and sets the exit code."""

import contextlib
import importlib
import inspect
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.test.utils import (
    setup_databases,
    setup_test_environment,
    teardown_databases,
    teardown_test_environment,
)

from pginterleave.django.test import InterleaveMixin
from pginterleave.testing import COUNT_ALL, OPTIONS, Interleave

Test = Callable[[Interleave], object]

SAFE, VIOLATES, NOT_PROVEN = 0, 1, 2


class Command(BaseCommand):
    help = (
        "Run every schedule of a race, and draw the shortest that violates the invariant. Exit "
        "code 0: all schedules are safe; 1: some violate the invariant; 2: nothing is proven, "
        "because the search was truncated or could not start, or the command is wrong."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "test", help="package.module:function that takes `interleave`, or :TestCase.method"
        )
        parser.add_argument("--replay", default="", metavar="ORDER", help="run only this schedule")
        for name, (kind, metavar, text) in OPTIONS.items():
            parser.add_argument(_flag(name), type=kind, metavar=metavar, help=text)
        flag = _flag("count_all")
        parser.add_argument(flag, action="store_const", const=True, help=COUNT_ALL)
        text = "keep the test database for the next run"
        parser.add_argument("--keepdb", action="store_true", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["test"]
        test = _test(name)
        names = (*OPTIONS, "count_all")
        given = {each: options[each] for each in names if options[each] is not None}
        with test_database(keep=options["keepdb"]):
            shell = f"manage.py interleave {name} --replay"
            code = self._explore(test, Interleave(replay=options["replay"], shell=shell, **given))
        if code != SAFE:
            sys.exit(code)

    def _explore(self, test: Test, run: Interleave) -> int:
        try:
            test(run)
        except AssertionError as error:
            self.stdout.write(str(error))
            violates = run.failures or any(each.violation for each in run.replayed)
            return VIOLATES if violates else NOT_PROVEN
        except Exception as error:
            notes = getattr(error, "__notes__", ())
            raise _refusal("\n".join([f"{type(error).__name__}: {error}", *notes])) from error
        for schedule in run.replayed:
            self.stdout.write(f"Schedule {schedule.order} is safe:\n\n{schedule.draw()}")
        for found in run.found:
            self.stdout.write(f"{found}.")
        if not run.replayed and not run.found:
            raise _refusal("The test has not called `interleave`.")
        return SAFE


@contextlib.contextmanager
def test_database(*, keep: bool) -> Iterator[None]:
    """Enter with an empty test database, as `manage.py test` makes it."""
    setup_test_environment()
    try:
        made = setup_databases(verbosity=0, interactive=False, keepdb=keep)
        try:
            yield
        finally:
            teardown_databases(made, verbosity=0, keepdb=keep)
    finally:
        teardown_test_environment()


def _test(name: str) -> Test:
    """Return a function that runs a test: a function with `interleave`, or a test case's method."""
    module, _, path = name.partition(":")
    try:
        found = operator.attrgetter(path)(importlib.import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise _refusal(f"Name a test as package.module:function. {error}") from error
    owner, _, method = path.rpartition(".")
    if owner:
        test_case = operator.attrgetter(owner)(sys.modules[module])
        if isinstance(test_case, type) and issubclass(test_case, InterleaveMixin):

            def run_method(run: Interleave) -> None:
                case = test_case(method)
                case.new_interleave = lambda: run  # type: ignore[method-assign]
                case.debug()

            return run_method
    if not callable(found) or list(inspect.signature(found).parameters) != ["interleave"]:
        raise _refusal(
            f"{name} is neither a function with the one argument `interleave` nor a method of a "
            "test case with InterleaveMixin."
        )

    def run_function(run: Interleave) -> None:
        with run:
            found(run)

    return run_function


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")


def _refusal(message: str) -> CommandError:
    return CommandError(message, returncode=NOT_PROVEN)
