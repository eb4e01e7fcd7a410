"""What was measured of a fault, the bounds that it is held to, and what did not hold."""

from typing import NamedTuple

from loadtests.harness.result import LoadResult

TIMEOUT = 60  # seconds, for the load to begin and for the service to recover
PROBE_BOUND = 1.0  # seconds, of /healthz

# Seconds that docs/deploying.md promises, by the number's name there.
QUEUE_TIMEOUT, LOCK_TIMEOUT = 0.5, 1.0
RECEIVE_TIMEOUT, SEND_TIMEOUT, REQUEST_TIMEOUT, KEEPALIVE = 5.0, 10.0, 12.0, 30.0
# What a machine that is busy with the load may add to a limit.
MARGIN = 0.5
RESPAWN = 10.0  # seconds for gunicorn to replace all workers, and for them to import Django
QUICK = 1.0  # seconds for a request that waits for nothing but a thread


class NotRecovered(Exception):
    """The service did not recover from a fault. The message is one line."""


class Figure(NamedTuple):
    """A measured number, and its bound: the most, the least with `least`, or none with None."""

    what: str
    measured: float
    bound: float | None
    unit: str = ""
    least: bool = False

    @property
    def holds(self) -> bool:
        """Whether the bound is kept."""
        if self.bound is None:
            return True
        return self.measured >= self.bound if self.least else self.measured <= self.bound

    def __str__(self) -> str:
        digits = ".2f" if self.unit == " s" else ".0f"
        limit = "" if self.bound is None else f" {'≥' if self.least else '≤'} {self.bound:g}"
        return f"{self.what} {self.measured:{digits}}{limit}{self.unit}"


class FaultOutcome(NamedTuple):
    """What was measured: redirects as clients and database count them, and figures.

    The first of the figures is the longest time without an answer.
    """

    acknowledged: int
    hits: int
    sent: int
    figures: list[Figure]
    result: LoadResult

    def missed(self) -> list[str]:
        """Return what did not hold."""
        return [*(str(figure) for figure in self.figures if not figure.holds), *self.miscounted()]

    def miscounted(self) -> list[str]:
        """Return which counts did not hold; a busy machine is no excuse for these."""
        told = []
        if not self.acknowledged <= self.hits <= self.sent:
            told.append("acknowledged ≤ hits ≤ sent")
        if self.result.violated or self.result.reason:
            errors = (f"{number} × {kind}" for kind, number in self.result.errors.items())
            told.append(": ".join(filter(None, ["the ledger", ", ".join(errors)])))
        return told
