"""What a scheduler asks of a judge."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from pginterleave.steps import Outcome

Function = Callable[[], object]


class Verdict(NamedTuple):
    """What does not hold, or ""; and whether a process raises an exception that it may not."""

    violation: str = ""
    raises: bool = False


class Judge(Protocol):
    def begin(self) -> None:
        """Look at the database before the processes run; called after each setup."""

    def note_call(self, what: str) -> None:
        """Note a call of a process that has an effect outside of the database."""

    def judge(
        self, outcomes: list[Outcome], functions: Sequence[Function], steps: Sequence[Any]
    ) -> Verdict:
        """Judge the database and the outcomes after the processes with these functions."""
