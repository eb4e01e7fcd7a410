"""`manage.py record`: explore races and keep every schedule, for the lab's pages."""

import time
from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection
from django.utils import timezone

from lab.models import Run
from lab.recording import background as runs
from lab.recording import store as recording
from lab.recording.store import SERVICE, Job
from lab.scratch_database import scratch_database
from pginterleave import InterleaveError

BUSY = "Something is being explored already; wait for it."
PROGRESS = 0.2  # seconds between two notes of how far it is


def wanted(text: str) -> list[Job]:
    """Return the explorations that `text` asks for; raise ArgumentTypeError with the reason."""
    try:
        return recording.jobs(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


class Command(BaseCommand):
    """Explores in a database of its own, and keeps the result in the service's."""

    help = (
        "Explore races and keep every schedule, with what each step did, for the pages under "
        "/lab/. Works in a database of its own, which is dropped at the end."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "what",
            nargs="*",
            type=wanted,
            help="matrix, museum, isolation (all three without it), or race/strategy, "
            "with /processes and /level behind it where they are not 2 and read-committed",
        )
        parser.add_argument("--run", type=int, help="the run that a page has begun")
        parser.add_argument("--database", help="that keeps it, if it is not the service's")

    def handle(self, *args: Any, what: list[list[Job]], **options: Any) -> None:
        groups = what or [recording.jobs(group) for group in recording.GROUPS]
        jobs = [job for group in groups for job in group]
        if options["database"]:
            connection.settings_dict["NAME"] = options["database"]
        with recording.service_connection():
            free = runs.lock(SERVICE)
            if not free and not options["run"]:
                raise CommandError(BUSY)
            run = self._run(options["run"], jobs)
            try:
                if not free:
                    raise CommandError(BUSY)
                self._record(run, jobs)
            except CommandError as error:
                run.problem = str(error)
                raise
            except (InterleaveError, DatabaseError) as error:
                run.problem = str(error).strip()
                raise CommandError(run.problem) from error
            except BaseException as error:
                run.problem = f"It was ended ({type(error).__name__})."
                raise
            finally:
                run.ended_at = timezone.now()
                run.save(using=SERVICE)
                if free:
                    runs.unlock(SERVICE)

    def _run(self, number: int | None, jobs: list[Job]) -> Run:
        what = str(jobs[0]) if len(jobs) == 1 else f"{len(jobs)} explorations"
        run = Run.objects.using(SERVICE).filter(pk=number or 0).first() or Run(what=what)
        run.total = len(jobs)
        run.save(using=SERVICE)
        return run

    def _record(self, run: Run, jobs: list[Job]) -> None:
        with scratch_database():
            for job in jobs:
                noted = 0.0

                def note(schedules: int, job: Job = job) -> None:
                    nonlocal noted
                    if time.monotonic() - noted > PROGRESS:
                        noted = time.monotonic()
                        run.current = f"{job}: {schedules} schedules"
                        run.save(using=SERVICE, update_fields=["current", "done"])

                kept = recording.record(job, note)
                run.done += 1
                self.stdout.write(
                    f"{job}: {kept.broken} of {kept.schedules} schedules violate the invariant"
                )
