"""`manage.py record`: explore races and store every schedule, for the lab's pages."""

import time
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection
from django.utils import timezone

from lab.exceptions import AlreadyExploring, LabRefusal
from lab.models import Batch, Recording
from lab.recording import batches, store
from lab.recording.jobs import Job, jobs_named
from lab.recording.source import digest
from lab.recording.store import SERVICE
from lab.scratch_database import scratch_database
from pginterleave import InterleaveError

PROGRESS = 0.2  # seconds between two updates of the batch
SHIPPED = settings.BASE_DIR / "recordings.json.gz"  # in an archive of `make bundle`
PATIENCE = 900.0  # seconds to wait for another exploration


def missing(jobs: list[Job]) -> list[Job]:
    """Return the jobs without a complete recording of the strategy's present source."""
    if not jobs:
        return []
    complete = Recording.objects.using(SERVICE).filter(truncated="")
    kept = set(complete.values_list(*jobs[0].where(), "source"))
    return [job for job in jobs if (*job.where().values(), digest(job.strategy)) not in kept]


class Command(BaseCommand):
    """Explores in a scratch database, and stores the result in the service's."""

    help = (
        "Explore races and store every schedule, with the result of each step, for the pages "
        "under /lab/. Works in a scratch database, which is dropped at the end."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "what",
            nargs="*",
            type=jobs_named,
            help="workshop, queue, matrix, museum, isolation, all (the default), or "
            "race/strategy[/processes[/level]]",
        )
        parser.add_argument("--missing", action="store_true", help="leave out complete recordings")
        parser.add_argument("--batch", type=int, help="the id of the batch that a page has created")
        parser.add_argument(
            "--database", help="the database to store the result in; default: the service's"
        )

    def handle(self, *args: Any, what: list[list[Job]], **options: Any) -> None:
        jobs = [job for group in what or [jobs_named("all")] for job in group]
        if options["database"]:
            connection.settings_dict["NAME"] = options["database"]
        with store.service_connection():
            free = batches.lock(SERVICE)
            if not free and options["missing"] and not options["batch"]:
                self.stdout.write("Another exploration is running; waiting for it to end.")
                free = batches.wait_for_lock(SERVICE, PATIENCE)
            if not free and not options["batch"]:
                raise CommandError(str(AlreadyExploring()))
            batch = self._batch(options["batch"], jobs)
            try:
                if not free:
                    raise AlreadyExploring
                if options["missing"] and SHIPPED.exists() and not Recording.objects.exists():
                    call_command("loaddata", SHIPPED, stdout=self.stdout)
                self._record(batch, missing(jobs) if options["missing"] else jobs)
            except (LabRefusal, DatabaseError) as error:
                batch.problem = str(error).strip()
                raise CommandError(batch.problem) from error
            except BaseException as error:
                batch.problem = f"{batches.INTERRUPTED} ({type(error).__name__})."
                raise
            finally:
                batch.ended_at = timezone.now()
                batch.save(using=SERVICE)
                if free:
                    batches.unlock(SERVICE)
            if batch.problem:
                raise CommandError(batch.problem)

    def _batch(self, number: int | None, jobs: list[Job]) -> Batch:
        what = str(jobs[0]) if len(jobs) == 1 else f"{len(jobs)} explorations"
        batch = Batch.objects.using(SERVICE).filter(pk=number or 0).first() or Batch(what=what)
        batch.total = len(jobs)
        batch.save(using=SERVICE)
        return batch

    def _record(self, batch: Batch, jobs: list[Job]) -> None:
        """Record the jobs; store why a job failed, and continue with the next one."""
        batch.done = batch.total - len(jobs)
        if not jobs:
            return
        failed = []
        with scratch_database():
            while jobs:
                job = self._next(batch, jobs)
                noted = 0.0

                def note(schedules: int, job: Job = job) -> None:
                    nonlocal noted
                    if time.monotonic() - noted > PROGRESS:
                        noted = time.monotonic()
                        batch.current = f"{job}: {schedules} schedules"
                        batch.save(using=SERVICE, update_fields=["current", "done", "total"])

                try:
                    kept = store.record(job, note)
                except (InterleaveError, DatabaseError) as error:
                    failed.append(f"{job} failed: {str(error).strip()}")
                    store.note_failure(job, failed[-1])
                    self.stdout.write(failed[-1])
                else:
                    said = f"{kept.violating} of {kept.schedules} schedules violate the invariant"
                    self.stdout.write(f"{job}: {said}")
                batch.done += 1
        batch.problem = "\n".join(failed)

    def _next(self, batch: Batch, jobs: list[Job]) -> Job:
        """Take the job whose page a visitor has opened, or else the first one."""
        batch.refresh_from_db(using=SERVICE, fields=["wanted"])
        for job in jobs:
            if str(job) == batch.wanted:
                jobs.remove(job)
                return job
        return jobs.pop(0)
