"""The test case and the mixin for unittest."""

import pytest
from django.test import TestCase, TransactionTestCase

from pginterleave import CannotExplore
from pginterleave.django_test import InterleaveMixin, InterleaveTestCase

from .counter import anything, expect_hits, hits, naive, setup, sql, update_returning

pytestmark = pytest.mark.usefixtures("counter_table")


class Checks(InterleaveMixin):
    def check(self) -> None:
        setup()
        self.assertNoRace(update_returning, invariant=expect_hits(2))
        self.assertNoRace(update_returning, invariant=expect_hits(3), processes=3)
        self.assertNoRace(update_returning)
        assert hits() == 0
        with pytest.raises(AssertionError, match="To run 122211 alone, pass replay='122211'"):
            self.assertNoRace(naive, invariant=expect_hits(2))


class WithoutFlush(Checks, InterleaveTestCase):
    def setUp(self) -> None:
        """Call no super(): the rows are put back nevertheless, also those of a cleanup."""
        assert sql("SELECT count(*) FROM interleave_counter") == [(0,)]
        self.addCleanup(setup)

    def test_it_explores(self) -> None:
        self.check()

    def test_nothing_is_left(self) -> None:
        """setUp() checks it, in whatever order the two run."""


def test_setup_test_data_is_refused() -> None:
    with pytest.raises(CannotExplore, match=r"setUpTestData\(\) would never"):

        class WithData(InterleaveTestCase):
            @classmethod
            def setUpTestData(cls) -> None:
                setup()


class WithMixin(Checks, TransactionTestCase):
    def test_it_explores(self) -> None:
        self.check()


class InTransaction(InterleaveMixin, TestCase):
    def test_it_is_told_what_to_do(self) -> None:
        advice = "in an InterleaveTestCase or a TransactionTestCase"
        with pytest.raises(CannotExplore, match=advice):
            self.assertNoRace(naive, invariant=anything)
