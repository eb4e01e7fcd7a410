"""The pytest fixture `interleave`. Loaded wherever the package is installed; imports no Django."""

from collections.abc import Callable
from typing import Any, Protocol

import pytest

from pginterleave import Exploration, Outcome, explore


class Interleave(Protocol):
    """The type of the fixture `interleave`."""

    def __call__(
        self,
        *processes: Callable[[], object],
        setup: Callable[[], object],
        invariant: Callable[[list[Outcome]], str | None],
        **options: Any,
    ) -> Exploration:
        """Run every schedule of the processes; fail if one of them violates the invariant.

        The arguments are those of `explore`; the test needs `django_db(transaction=True)`.

        Raises:
            AssertionError: with the counterexample; or the search proves nothing.
            InterleaveError: as of `explore`; CannotExplore inside the test's own transaction.
        """


@pytest.fixture
def interleave() -> Interleave:
    """Explore every schedule of some processes, and fail unless all of them are safe."""

    def run(*processes: Callable[[], object], **options: Any) -> Exploration:
        __tracebackhide__ = True
        found = explore(processes, **options)
        found.assert_safe()
        return found

    return run
