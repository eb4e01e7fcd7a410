"""A finding: an operation of a package, the processes that run it, and an invariant."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db import connection, models

from pginterleave import Outcome

ATTEMPTS = 2_000  # at most, until threads show a violation
ATTEMPTS_TO_HOLD = 200  # without a violation

Invariant = Callable[[list[Outcome]], str]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """An operation of a published package, unmodified, run by several processes at once.

    `setup` makes the first state from any state. `invariant` returns what does not hold afterwards.
    `says` explains why the operation breaks or holds.
    """

    package: str
    operation: str
    breaks: bool
    says: str
    setup: Callable[[], object]
    processes: Sequence[Callable[[], object]]
    invariant: Invariant
    expected: tuple[type[Exception], ...] = ()


def equal(due: object, seen: Callable[[], object], text: str) -> Invariant:
    """Return the invariant that `seen()` is `due`; otherwise it formats `text` with the value."""

    def invariant(outcomes: list[Outcome]) -> str:
        found = seen()
        return "" if found == due else text.format(found)

    return invariant


def empty(*tables: type[models.Model]) -> None:
    for table in tables:
        table.objects.all().delete()


def seen_in_threads(finding: Finding) -> int:
    """Run the processes in threads repeatedly; return the first attempt that broke, or 0.

    A barrier starts the threads together, and nothing else synchronizes them.
    """
    attempts = ATTEMPTS if finding.breaks else ATTEMPTS_TO_HOLD
    outcomes = [Outcome()] * len(finding.processes)
    barrier = threading.Barrier(len(finding.processes) + 1)
    over = threading.Event()

    def run(index: int) -> None:
        try:
            while not barrier.wait() or not over.is_set():
                try:
                    outcomes[index] = Outcome(returned=finding.processes[index]())
                except Exception as error:
                    outcomes[index] = Outcome(raised=error)
                barrier.wait()
        except threading.BrokenBarrierError:
            pass
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[each]) for each in range(len(outcomes))]
    for thread in threads:
        thread.start()
    try:
        for attempt in range(1, attempts + 1):
            finding.setup()
            barrier.wait()
            barrier.wait()
            raised = [each.raised for each in outcomes if each.raised]
            unexpected = [each for each in raised if not isinstance(each, finding.expected)]
            if unexpected or finding.invariant(outcomes):
                return attempt
        return 0
    finally:
        over.set()
        barrier.abort()
        for thread in threads:
            thread.join()
