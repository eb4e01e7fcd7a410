"""What a scheduler asks of a judge."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pginterleave.steps import Outcome

Function = Callable[[], object]


class Judgement(NamedTuple):
    """What does not hold, or ""; and whether a process raises an exception that it may not."""

    violation: str = ""
    raises: bool = False


class Judge(ABC):
    def begin(self) -> None:  # noqa: B027 - an invariant looks at the end alone
        """Look at the database before the processes run; called after each setup."""

    def note(self, effect: Any) -> None:  # noqa: B027 - an invariant says what has to hold
        """Note what a process does outside of the database: a description, or a Mock it calls."""

    @abstractmethod
    def judge(
        self, outcomes: list[Outcome], functions: Sequence[Function], steps: Sequence[Any]
    ) -> Judgement:
        """Judge the rows after a schedule, and how the processes of these functions have ended."""
