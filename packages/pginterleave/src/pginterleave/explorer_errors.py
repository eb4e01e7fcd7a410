"""The errors of an exploration, and notes on their likely causes."""

import contextlib
import re
from collections.abc import Iterator


class InterleaveError(Exception):
    """A race could not be explored. Every error that the explorer raises is one of these."""


class CannotExplore(InterleaveError):
    """The exploration was not started; the message says what to do instead."""


class StepTimeout(InterleaveError):
    """A process did not finish a step in time, and was not waiting for another process."""


class ImpossibleSchedule(InterleaveError):
    """A schedule names a process that cannot take the next step, or ends too early."""


class NoOtherVictim(ImpossibleSchedule):
    """A schedule plans another victim of a deadlock than the process that closes it."""


class NotDeterministic(InterleaveError):
    """The same steps in the same order led to another state than before."""


class ProcessCancelled(BaseException):
    """Ends a process that is no longer needed; no `except Exception` swallows it."""


def sqlstate(error: BaseException) -> str:
    """Return the SQLSTATE of an error of PostgreSQL; "" for other errors."""
    cause = error.__cause__ or error
    return getattr(cause, "pgcode", None) or getattr(cause, "sqlstate", None) or ""


# Django's caches of rows, by the table that they read.
CACHES = {
    "django_content_type": "ContentType.objects, which ContentType.objects.clear_cache() empties",
    "django_site": "Site.objects, which Site.objects.clear_cache() empties",
}
QUERIED = r'SELECT (?:(?!SELECT).)*? FROM "?(\w+)"?'


@contextlib.contextmanager
def noting_likely_cause() -> Iterator[None]:
    """Add a note to an error of the exploration if its likely cause is known."""
    try:
        yield
    except NotDeterministic as error:
        # A cache sends its query the first time, and another statement now.
        first, _, now = str(error).partition(" the first time and ")
        queried = re.findall(QUERIED, first)
        tables = [*dict.fromkeys(queried)] if now and not re.search(QUERIED, now) else []
        known = [CACHES[table] for table in tables if table in CACHES]
        cache = " and ".join(known or [f"one that keeps rows of {' or '.join(tables)}"])
        if tables:
            error.add_note(
                f"The likely cause is a cache, which sends its query only the first time: {cache}. "
                "Fill or empty it in setup; the fixture `interleave` does so with Django's caches."
            )
        raise
