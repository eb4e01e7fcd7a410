"""What a test costs that writes two rows, by the test case that removes them afterwards.

python benchmarks/put_back.py
"""

import statistics
import sys
import time
import unittest
from pathlib import Path

import django
from django.conf import settings
from django.test.utils import setup_databases, setup_test_environment, teardown_databases

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.standalone_settings import database

TESTS = 50  # of each kind
APPS = ["admin", "auth", "contenttypes", "messages", "sessions", "sites"]


def milliseconds(base: type[unittest.TestCase]) -> float:
    """Return the median of the tests, without what a class costs once."""
    from django.contrib.auth.models import Group, User

    class Writes(base):  # type: ignore[valid-type,misc]
        def test(self) -> None:
            User.objects.create(username="ann")
            Group.objects.create(name="editors")

    Writes.setUpClass()
    result, times = unittest.TestResult(), []
    for _ in range(TESTS):
        began = time.perf_counter()
        Writes("test")(result)
        times.append(1000 * (time.perf_counter() - began))
    Writes.tearDownClass()
    assert result.wasSuccessful(), result.errors
    assert result.testsRun == TESTS
    return statistics.median(times)


def main() -> None:
    """Print a table."""
    settings.configure(
        DATABASES={"default": database()},
        INSTALLED_APPS=[f"django.contrib.{app}" for app in APPS],
    )
    django.setup()
    from django.test import TestCase, TransactionTestCase

    from pginterleave.django.test import InterleaveTestCase

    setup_test_environment()
    made = setup_databases(verbosity=0, interactive=False)
    print("| test case | ms a test, median |\n| --- | ---: |")
    for base in (TestCase, InterleaveTestCase, TransactionTestCase):
        print(f"| `{base.__name__}` | {milliseconds(base):.1f} |")
    teardown_databases(made, verbosity=0)


if __name__ == "__main__":
    main()
