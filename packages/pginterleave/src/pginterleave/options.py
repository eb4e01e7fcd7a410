"""The options of an exploration."""

from collections.abc import Callable
from dataclasses import dataclass

from pginterleave.results import Schedule


@dataclass(frozen=True, kw_only=True)
class Options:
    """What few explorations change.

    Attributes:
        reduce: of the schedules that differ only in the order of independent steps, run one and
            count the others. None is on, unless `on_schedule` is given. Two steps are independent
            if they only read, or if their SQL and the catalogue show that they are about different
            tables or rows. The processes must share no memory: turn it off if they do.
        max_steps: a longer schedule is an error, as a loop may never end.
        step_timeout: seconds for one step, and for the Python up to the next one.
        observe: called after each step, on the caller's connection, which sees what is committed.
            The step keeps its result. An exploration is slower with it.
        on_schedule: called with every schedule after it has run.
        ignored_tables: whose rows are not compared, such as those of sessions.
    """

    reduce: bool | None = None
    max_steps: int = 200
    step_timeout: float = 30.0
    observe: Callable[[], object] | None = None
    on_schedule: Callable[[Schedule], object] | None = None
    ignored_tables: frozenset[str] = frozenset()

    @property
    def reduces(self) -> bool:
        """Whether only one of equivalent schedules runs; `reduce` decides, if it is given."""
        return self.on_schedule is None if self.reduce is None else self.reduce
