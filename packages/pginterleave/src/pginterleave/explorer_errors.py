"""The errors of an exploration."""


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
