"""A function of the user's own, judged by a race as if it were a strategy."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from lab.catalogue.race_definition import Race
from lab.exceptions import CannotJudge
from lab.workshop.explanations import explanations, hints, left_behind
from lab.workshop.requirements import requirements
from lab.workshop.submission import Submission
from pginterleave import (
    Exploration,
    InterleaveError,
    NotDeterministic,
    Outcome,
    Schedule,
    StepTimeout,
)
from shorturl.models import ShortUrl
from shorturl.strategies import Strategy, Verdict

# What no race is the cause of.
MISTAKES = (AttributeError, ImportError, NameError, TypeError)
# Of one schedule: what ends takes fewer, and what does not is found before anybody is tired of it.
MAX_STEPS = 100
STEP_TIMEOUT = 10.0  # seconds

Draw = Callable[[Schedule], str]


class Violating(Exception):
    """Ends a search at the first schedule that violates the invariant."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule.order)
        self.schedule = schedule


def judge(
    race: Race,
    submission: Submission,
    processes: int,
    draw: Draw,
    *,
    count: bool = False,
    **limits: Any,
) -> tuple[bool, str]:
    """Return whether no schedule violates the invariant with `submission`, and a report on it.

    It first has to do alone what the race takes for granted: see requirements(). The search ends at
    the first schedule that violates the invariant, unless `count` asks for all of them. `draw`
    draws it, and `limits` go to pginterleave.explore. Raises CannotJudge where nothing is proven,
    and no race is the cause.
    """
    with submission.watched(), understood(submission):
        for required in requirements(race):
            found = search(required, submission, required.counts[0], **limits)
            if isinstance(found, Schedule):
                title = (
                    f"{race.name} × {submission.path}: refused before the race. "
                    f"{required.situation} {required.must_hold}"
                )
                return False, report(title, required, submission, found, draw)
            if "keys" in race.signature and not submission.drew:
                raise CannotJudge(NOT_DRAWN.format(submission.path))
        result = search(race, submission, processes, count=count, **limits)
        broken = result if isinstance(result, Schedule) else result.counterexample
        title = f"{race.name} × {submission.path}"
        if broken:
            which = f"schedule {broken.order} violates the invariant."
            if isinstance(result, Exploration):
                which = f"{result}. The shortest, {broken.order}:"
            return False, report(f"{title}: {which}", race, submission, broken, draw)
    assert isinstance(result, Exploration)
    if result.orders == ("",):
        raise CannotJudge(f"{title}: nothing is proven, as it sends nothing to the database.")
    if not result.complete:
        raise CannotJudge(
            f"{title}: not proven. None of the first {result.schedules} schedules violates the "
            f"invariant, and there are more: {result.truncated}. The fewer statements a function "
            "sends, the fewer schedules it has."
        )
    more = MORE_PROCESSES.format(processes, processes + 1) if max(race.counts) > 1 else ""
    return True, f"{title}: holds. {result}. {more}".rstrip()


def search(
    race: Race, submission: Submission, processes: int, *, count: bool = False, **limits: Any
) -> Exploration | Schedule:
    """Explore; return the first schedule that violates the invariant, if it is not to `count`.

    A schedule that leaves something behind in a session violates it, too. Raises CannotJudge for
    what no schedule shows.
    """

    def each(schedule: Schedule) -> None:
        if submission.connected:
            raise CannotJudge(OWN_CONNECTION.format(submission.path))
        if left_behind(schedule) or (schedule.violation and not count):
            raise Violating(schedule)

    mine: Strategy[Any] = Strategy(submission.path, submission, Verdict.RIGHT, "–", "")
    found: Exploration | Schedule
    try:
        found = with_new_processes(race, submission).explore(
            mine,
            processes,
            each=each,
            max_steps=MAX_STEPS,
            step_timeout=STEP_TIMEOUT,
            **limits,
        )
    except Violating as violating:
        found = violating.schedule
    if max(race.counts) == 1 and isinstance(found, Schedule):
        raised = found.outcomes[0].raised
        if isinstance(raised, MISTAKES) or (raised and found.order == ""):
            why = " ".join(hints(found))
            if isinstance(raised, TypeError):
                why = why or CALLED.format(race.signature)
            message = str(raised).rstrip(".")
            raise CannotJudge(
                f"{submission.path} does not work, with or without a race: process 1 raises "
                f"{type(raised).__name__}: {message}. What it had to do: {race.situation} "
                f"{race.must_hold} {why}".rstrip()
            )
    return found


def with_new_processes(race: Race, submission: Submission) -> Race:
    """Return the race, before each schedule of which all processes are started anew."""

    def setup(strategy: Strategy[Any]) -> None:
        submission.start_anew()
        race.setup(strategy)

    return replace(race, setup=setup)


def report(title: str, race: Race, submission: Submission, schedule: Schedule, draw: Draw) -> str:
    """Return the drawing of a schedule, what it violates, and why, as far as can be told."""
    mine: Strategy[Any] = Strategy(submission.path, submission, Verdict.RIGHT, "–", "")
    shown = schedule
    if schedule.order:  # once more, and this time with what the rows hold after each step
        again = with_new_processes(race, submission)
        shown = again.run(mine, len(schedule.outcomes), schedule.order)
    left = left_behind(shown)
    why = [] if left else explanations(shown)
    if len(shown.outcomes) > 1:
        why += submission.warnings
    elif not left:
        why = [*mistaken(race, shown.outcomes[0]), *why]
    violation = left or shown.violation or schedule.violation
    return "\n\n".join([title, draw(shown), f"Violated: {violation}.", *why])


def mistaken(race: Race, outcome: Outcome) -> list[str]:
    """Return which exception the only process had to raise, or what it had to return."""
    if race.expected:
        due = " or ".join(each.__qualname__ for each in race.expected)
        raised = type(outcome.raised).__name__ if outcome.raised else "nothing"
        return (
            [EXCEPTION.format(due, raised)] if not isinstance(outcome.raised, race.expected) else []
        )
    returns = race.signature.endswith("-> ShortUrl")
    if returns and not outcome.raised and not isinstance(outcome.returned, ShortUrl):
        return [RETURNED.format(outcome.returned)]
    return []


@contextmanager
def understood(submission: Submission) -> Iterator[None]:
    """Within the block, say what an error means for whoever wrote the function."""
    try:
        yield
    except StepTimeout as error:
        if submission.connected:
            raise CannotJudge(OWN_CONNECTION.format(submission.path)) from error
        where = str(error).partition("'. ")[2] or str(error)
        raise CannotJudge(
            f"{STUCK.format(submission.path, STEP_TIMEOUT)} {where}\n\n{WAITS_IN_PYTHON}"
        ) from error
    except NotDeterministic as error:
        raise CannotJudge(f"{NOT_THE_SAME.format(submission.path)} {error}") from error
    except InterleaveError as error:
        if "max_steps" not in str(error):
            raise
        raise CannotJudge(f"{ENDLESS.format(submission.path)} ({error})") from error
    except Exception as error:
        if not getattr(error, "__notes__", None):  # not of the set-up or the invariant
            raise
        notes = " ".join(error.__notes__)
        raise CannotJudge(
            f"{submission.path} leaves behind what cannot be judged: "
            f"{type(error).__name__}: {error} {notes}"
        ) from error


NOT_DRAWN = (
    "{} did not use the candidate keys that it was handed, so nothing could collide, and nothing "
    "is proven: draw from `keys`."
)
CALLED = "It is called like {}."
OWN_CONNECTION = (
    "{} talks to the database by a connection of its own, perhaps in a thread of its own. Whatever "
    "it does there is not part of the caller's transaction, nobody hears when it fails, and no "
    "schedule says when it happens, so nothing is proven: use Django's `connection`, in the thread "
    "that calls you."
)
EXCEPTION = (
    "Who calls it waits for {}, and takes any other end for a failure of the service: it raises {}."
)
RETURNED = "Who calls it needs the ShortUrl, to read its target_url: it returns {!r}."
MORE_PROCESSES = (
    "That is for {} processes. A function that gives up after some tries can fail with more: try "
    "--processes {}."
)
STUCK = "{} has sent nothing to the database for {:.0f} seconds, and has not ended."
WAITS_IN_PYTHON = (
    "Either this loop never ends, or it waits in Python for what another process holds: a lock of "
    "Python's, which is known to one process alone, or a file, which is known to one machine. The "
    "database knows of neither. What all workers of a service share is the database: lock there."
)
ENDLESS = (
    "{} may try for ever: a loop in it ends only when somebody else lets go of a lock or of a key. "
    "Let each loop end, and where a lock is held, let the database wait for it, without NOWAIT."
)
NOT_THE_SAME = (
    "{} did something else when the same schedule was run once more, and nothing is proven. Take "
    "keys and times from the arguments, and nothing from chance."
)
