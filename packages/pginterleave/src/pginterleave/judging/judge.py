"""Judges what a schedule has come to: by an invariant."""

from collections.abc import Callable

from pginterleave import formatting
from pginterleave.explorer_errors import CannotExplore
from pginterleave.processes.judgement import Judge, Judgement
from pginterleave.steps import Outcome

Invariant = Callable[[list[Outcome]], str | None]
Expected = type[BaseException] | tuple[type[BaseException], ...]


class InvariantJudge(Judge):
    """Runs an invariant, unless a process raises an exception that is not expected."""

    def __init__(self, invariant: Invariant, expected: Expected) -> None:
        require_exception_classes(expected)
        self.invariant = invariant
        self.expected = expected

    def judge(self, outcomes: list[Outcome], *_: object) -> Judgement:
        """Return the first exception that is not expected, or else what the invariant says."""
        for text in describe_unexpected_exceptions(outcomes, self.expected).values():
            return Judgement(text, raises=True)
        return Judgement(find_violation(self.invariant, outcomes))


def describe_unexpected_exceptions(outcomes: list[Outcome], expected: Expected) -> dict[int, str]:
    """Return a text on each exception that is not expected, by the number of its process."""
    texts = {}
    for number, outcome in enumerate(outcomes, start=1):
        error = outcome.raised
        if error is not None and not isinstance(error, expected):
            # The drawing has the message of a database error, at the step that failed.
            is_drawn = formatting.is_database_error(error)
            name = type(error).__name__ if is_drawn else formatting.format_exception(error)
            texts[number] = f"process {number} raises {name}"
    return texts


def find_violation(invariant: Invariant, outcomes: list[Outcome]) -> str:
    """Run an invariant; return what does not hold, or "" if all does."""
    try:
        violation = invariant(outcomes)
    except AssertionError as error:
        return str(error) or "an assertion of the invariant failed"
    if violation is not None and not isinstance(violation, str):
        raise CannotExplore(f"The invariant must return a str or None, not {violation!r}.")
    return violation or ""


def require_exception_classes(expected: Expected) -> None:
    """Raise CannotExplore unless `expected` has classes of exceptions only."""
    classes = expected if isinstance(expected, tuple) else (expected,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in classes):
        raise CannotExplore(f"expected must be classes of exceptions, not {expected!r}.")
