"""A function of the user's own, judged by a race as if it were a strategy."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lab.catalogue.race_definition import Race
from lab.exceptions import CannotJudge
from pginterleave import Schedule
from shorturl.strategies import Strategy, Verdict

# What no race is the cause of, when it is raised in every schedule.
MISTAKES = (AttributeError, ImportError, NameError, TypeError)


def judge(
    race: Race,
    function: Callable[..., Any],
    processes: int,
    draw: Callable[[Schedule], str],
    **limits: Any,
) -> tuple[bool, str]:
    """Return whether no schedule violates the invariant with `function`, and a report on it.

    If none does, autocommit is split off and all are run again. `draw` draws the counterexample,
    and `limits` go to pginterleave.explore. Raises CannotJudge where nothing is proven, and no race
    violates the invariant.
    """
    name = f"{function.__module__}:{getattr(function, '__name__', function)}"
    watched = Watched(function)
    mine: Strategy[Any] = Strategy(name, watched, Verdict.RIGHT, "–", "")
    plain = result = race.explore(mine, processes, **limits)
    if split := plain.complete and not plain.counterexample:
        result = race.explore(mine, processes, split_autocommit=True, **limits)
    when = " with COMMIT as a step of its own" if split else ""
    if result.counterexample:
        shown = race.run(mine, processes, result.counterexample.order, split_autocommit=split)
        mistakes = [
            f"process {number} raises {type(outcome.raised).__name__}: {outcome.raised}"
            for number, outcome in enumerate(shown.outcomes, start=1)
            if isinstance(outcome.raised, MISTAKES)
        ]
        if mistakes and result.violating == result.schedules:
            raise CannotJudge(
                f"{name} does not work, with or without a race: {mistakes[0]}. "
                f"It is called like {race.signature}."
            )
        title = f"{race.name} × {name}: {result}{when}. The shortest, {shown.order}:"
        return False, f"{title}\n\n{draw(shown)}\n\nViolated: {shown.violation}."
    if race.operation == "creating" and not watched.drew:
        raise CannotJudge(
            f"{name} did not use the candidate keys that it was handed, so nothing could "
            "collide, and nothing is proven: draw from `keys`."
        )
    if not result.complete:
        raise CannotJudge(f"{race.name} × {name}: not proven: {result}{when}")
    more = result.schedules > plain.schedules
    also = f", and 0 of {result.schedules}{when}" if more else ""
    return True, f"{race.name} × {name}: holds. {plain}{also}."


class Watched:
    """A function of the user's own, and whether it drew from the keys that it was handed."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.drew = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if "keys" in kwargs:
            kwargs["keys"] = self._watch(kwargs["keys"])
        return self.function(*args, **kwargs)

    def _watch(self, keys: Iterable[str]) -> Iterator[str]:
        for key in keys:
            self.drew = True
            yield key
