"""Explorations that somebody asks for: each once, one at a time, in a process of their own."""

import atexit
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from threading import Lock, Thread

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from lab.exceptions import NotFound
from lab.exploring.jobs import Job, job_named
from lab.exploring.source import digest, shared_digest
from lab.models import Exploration
from lab.scratch_database import is_locked
from shorturl.exceptions import QuotaExceeded
from shorturl.strategies.spending import reservation

PERIOD, MOST = timedelta(hours=1), 20  # explorations that one network may ask for
REFUSED = f"Your network has opened {MOST} unexplored pages in this hour. Try again in the next."
STARTING = timedelta(seconds=5)  # a process has the lock by then
NEXT_PAGE = 30  # seconds that it waits for, as Django takes longer to start than to explore
FAILED = 1  # the exit status of a command that failed, and was not ended by a signal

_one_start = Lock()
_process: "subprocess.Popen[str] | None" = None


def asked_for(job: Job, network: str = "") -> Exploration:
    """Return the exploration of the present source; ask for it if nobody has.

    A new one counts for the `network`, unless that is empty. Above the limit it is not stored, and
    its `problem` says so.
    """
    today = digest(job.strategy)
    asked = Exploration.objects.filter(**job.where(), digest=today)
    if row := asked.first():
        return row
    new = Exploration(**job.where(), digest=today)

    def ask() -> None:
        # Any number can do this at once: one inserts the row, and nobody deletes it.
        Exploration.objects.filter(**job.where()).exclude(digest=today).delete()
        Exploration.objects.bulk_create([new], ignore_conflicts=True)

    try:
        if network:
            reservation.spend(f"lab {network}", ask, limit=MOST, period=PERIOD)
        else:
            ask()
    except QuotaExceeded:
        new.problem = REFUSED
    return asked.first() or new


def waiting(using: str = DEFAULT_DB_ALIAS) -> QuerySet[Exploration]:
    """Return those without a result; first the ones whose pages have been loaded last."""
    rows = Exploration.objects.using(using).filter(summary__isnull=True, problem="")
    return rows.order_by(F("asked_at").desc(nulls_last=True), "pk")


def running() -> Job | None:
    """Return what a process explores for a page, if one does."""
    for row in waiting().filter(ran__isnull=False):
        with suppress(NotFound):  # the catalogue no longer has it
            return job_of(row)
    return None


def explored_here() -> set[str]:
    """Return the texts of the jobs that are explored, and have not changed since."""
    shared, found = shared_digest(), set()
    for row in Exploration.objects.exclude(summary__isnull=True).defer("summary", "kept"):
        with suppress(NotFound):  # the catalogue no longer has it
            job = job_of(row)
            if digest(job.strategy, shared) == row.digest:
                found.add(str(job))
    return found


def job_of(row: Exploration) -> Job:
    """Return what a row is an exploration of; raise NotFound if there is no such race any more."""
    return job_named(row.race, row.strategy, str(row.processes), row.isolation.replace(" ", "-"))


def start(row: Exploration) -> None:
    """Start a process that explores what was asked for, unless one runs; it ends with this one.

    Of all workers that are asked for the same row within some seconds, one starts a process.
    """
    global _process
    same = Exploration.objects.filter(pk=row.pk).exclude(asked_at__gt=Now() - STARTING)
    if not same.update(asked_at=Now()):
        return
    with _one_start:
        if is_locked(connection) or (_process and _process.poll() is None):
            return
        command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "explore"]
        command += [f"--database={connection.settings_dict['NAME']}", f"--wait={NEXT_PAGE}"]
        _process = process = subprocess.Popen(  # noqa: S603 - no argument is a visitor's
            command,
            cwd=settings.BASE_DIR,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    atexit.register(process.terminate)  # does nothing if it has ended
    Thread(target=note_failure, args=[process], daemon=True).start()


def note_failure(process: "subprocess.Popen[str]") -> None:
    """Wait for the end of a process; if it has failed, its last line is why nothing is explored."""
    _, said = process.communicate()
    if process.returncode == FAILED:
        *_, last = ["", *said.strip().splitlines()]
        problem = last.removeprefix("CommandError: ") or "manage.py explore has failed."
        waiting().update(problem=problem)
        connection.close()  # of this thread
