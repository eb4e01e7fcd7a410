"""`manage.py explore`: explore what the lab's pages have asked for, and more."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection, connections

from lab.exceptions import Cancelled, LabRefusal, NotFound
from lab.exploring import asked, explorer
from lab.exploring.jobs import Job, jobs_named
from lab.exploring.source import digest, shared_digest
from lab.models import Exploration
from lab.races import EVERY_RACE
from lab.scratch_database import is_locked, scratch_database

PROGRESS = 0.3  # seconds between two looks at the table, and two updates of it
SERVICE = "service"  # the alias of the service's database while the default is a scratch database
KILLED = "It was interrupted, for example because the service was stopped."
BAR = 20  # characters


class Command(BaseCommand):
    """Explores in the scratch database, and stores the results in the service's."""

    requires_system_checks = ()  # they import every page, which takes as long as an exploration
    help = (
        "Explore races for the pages under /lab/, which do it themselves when they are opened: "
        "those that pages wait for, and those named here that are not explored yet."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "what",
            nargs="*",
            type=jobs_named,
            help="workshop, all, or race/strategy[/processes[/level]]",
        )
        parser.add_argument("--database", help="the service's database, if it is another one")
        parser.add_argument(
            "--wait", type=int, default=0, help="seconds to wait for another page, at the end"
        )

    def handle(self, *args: Any, what: list[list[Job]], **options: Any) -> None:
        if options["database"]:
            connection.settings_dict["NAME"] = options["database"]
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        try:
            for job in [job for group in what for job in group]:
                Exploration.objects.filter(**job.where()).exclude(problem="").delete()
                asked.asked_for(job)
            with service_connection():
                failed = (
                    self._explore_all(options["wait"]) if asked.waiting(SERVICE).exists() else 0
                )
        except (LabRefusal, DatabaseError) as error:
            raise CommandError(str(error).strip()) from error
        finally:
            signal.signal(signal.SIGTERM, before)
        if failed and what:
            raise CommandError(f"{failed} failed.")

    def _explore_all(self, wait: int) -> int:
        """Explore what was asked for; return how many have failed."""
        done = failed = 0
        with scratch_database(lambda: self.stdout.write("Another exploration is running.")):
            for row, job in self._taken(wait):
                total = done + asked.waiting(SERVICE).count()
                self._say(done, total, f"{job}")
                said = self._explore(row, job)
                failed += said.startswith("failed")
                done += 1
                self._say(done, max(done, total), f"{job}: {said}", ending="\n")
        return failed

    def _taken(self, wait: int) -> Iterator[tuple[Exploration, Job]]:
        """Take one after the other, until none has come for `wait` seconds.

        End at once if a process has to explore that has another source, or is another command.
        """
        last, shared = time.monotonic(), shared_digest()
        # Of the files as this process has imported them.
        digests = {
            one.function: digest(one, shared)
            for race in EVERY_RACE.values()
            for one in race.strategies.values()
        }
        while True:
            others = asked.waiting(SERVICE).exists() or is_locked(
                connections[SERVICE], granted=False
            )
            if found := self._next(digests):
                yield found
                last = time.monotonic()
            elif others or time.monotonic() - last >= wait:
                return
            else:
                time.sleep(PROGRESS)

    def _next(self, digests: dict[Any, str]) -> tuple[Exploration, Job] | None:
        """Return the next one that has the source of this process, and take it."""
        for row in asked.waiting(SERVICE):
            same = Exploration.objects.using(SERVICE).filter(pk=row.pk)
            if row.ran is not None:  # this process alone has the lock
                same.update(problem=KILLED)
                continue
            with suppress(NotFound):
                job = asked.job_of(row)
                if digests[job.strategy.function] == row.digest:
                    same.update(ran=0)
                    return row, job
        return None

    def _explore(self, row: Exploration, job: Job) -> str:
        """Explore a job and store the result, or why there is none; return a line about it."""
        # Without the condition, what was cancelled or asked for again would be written over.
        same = Exploration.objects.using(SERVICE).filter(pk=row.pk, problem="")
        noted = 0.0

        def note(ran: int) -> None:
            nonlocal noted
            if time.monotonic() - noted > PROGRESS:
                noted = time.monotonic()
                if not same.update(ran=ran):
                    raise Cancelled(Cancelled.__doc__)

        try:
            found = explorer.run(job, note)
        except Exception as error:
            text = f"{type(error).__name__}: {error}".strip()
            same.update(problem=text)
            return f"failed: {text}"
        except BaseException:  # the process is ended: the next one begins again
            same.update(ran=None)
            raise
        same.update(**found.columns())
        return f"{found.violating:,} of {found.schedules:,} schedules violate the invariant"

    def _say(self, done: int, total: int, text: str, ending: str = "") -> None:
        """Show a bar that stays in its line on a terminal; elsewhere only whole lines."""
        bar = f"[{'#' * (BAR * done // total):-<{BAR}}] {done}/{total} {text}"
        if self.stdout.isatty():
            self.stdout.write(f"\r\x1b[K{bar}", ending="")
            self.stdout.flush()
        elif ending:
            self.stdout.write(bar)


@contextmanager
def service_connection() -> Iterator[None]:
    """Within the block, have a connection to the service's database, with the alias SERVICE."""
    own = connection.copy(SERVICE)
    databases: Any = connections.databases
    databases[SERVICE], connections[SERVICE] = own.settings_dict, own
    try:
        yield
    finally:
        own.close()
        del connections[SERVICE], databases[SERVICE]
