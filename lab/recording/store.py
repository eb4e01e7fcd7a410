"""Recordings of explorations: every schedule with each step, for the pages."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace as with_changes
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, connections, transaction

from lab.models import RecordedSchedule, Recording
from lab.races.race_definition import Process
from lab.recording.jobs import Job
from lab.recording.session_states import session_states
from lab.recording.source import digest, file_of
from pginterleave import Exploration, Outcome, Schedule, Step, explore
from pginterleave.picture.recorded import recorded_step
from shorturl.strategies.strategy import Strategy

MAX_SCHEDULES, MAX_SECONDS = 20_000, 120  # of one exploration, which stores all its schedules
FEW = 300  # with more schedules, only those are stored that partial-order reduction leaves
SERVICE = "service"  # the alias of the service's database while the default is a scratch database


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


def record(job: Job, progress: Callable[[int], object] = lambda _: None) -> Recording:
    """Explore in the default database, a scratch database, and store the result in the service's.

    `progress` is called with the number of schedules that have run. Replaces an older recording of
    the job. Raises the exceptions of Race.explore().
    """
    kept: list[RecordedSchedule] = []
    second: list[Step] = []  # of the second tries of one schedule
    initial: list[str] = []
    source, written_in = digest(job.strategy), str(file_of(job.strategy))

    def keep(schedule: Schedule) -> None:
        kept.append(written(schedule, second, len(kept), written_in))
        progress(len(kept))

    def setup(strategy: Strategy[Any]) -> None:
        second.clear()
        job.race.setup(strategy)
        if not initial:
            initial.append(str(job.race.observe()))

    def observe() -> dict[str, Any]:
        return {"observed": str(job.race.observe()), **session_states()}

    def try_again(process: int, second_try: Process) -> Outcome:
        idle: list[Process] = [lambda: None] * (process - 1)  # the process keeps its number
        alone: list[Schedule] = []
        explore(
            [*idle, second_try],
            invariant=lambda _: "",
            expected=Exception,
            isolation_level=job.isolation,
            observe=observe,
            each=alone.append,
        )
        second.extend(alone[0].timeline)
        return alone[0].outcomes[-1]

    def run(*, reduce: bool) -> Exploration:
        kept.clear()
        return with_changes(job.race, setup=setup, try_again=try_again).explore(
            job.strategy,
            job.processes,
            isolation_level=job.isolation,
            observe=observe,
            each=keep,
            reduce=reduce,
            max_schedules=MAX_SCHEDULES,
            max_seconds=MAX_SECONDS,
        )

    result = run(reduce=True)
    if len(kept) < result.schedules <= FEW:
        result = run(reduce=False)
    kept.sort(key=lambda schedule: schedule.order)  # similar schedules become neighbours
    for number, schedule in enumerate(kept):
        schedule.number = number
    recording = Recording(
        **job.where(),
        schedules=result.schedules,
        explored=len(kept),
        violating=result.violating,
        refused=result.raising,
        truncated=result.truncated,
        source=source,
        initial=initial[0],
        counterexample=result.counterexample.order if result.counterexample else "",
        seconds=result.seconds,
        postgresql=version(),
    )
    replace(job, recording, kept)
    return recording


def note_failure(job: Job, reason: str) -> None:
    """Store why the exploration of `job` failed, unless it has a recording."""
    if not Recording.objects.using(SERVICE).filter(**job.where()).exists():
        nothing = {"schedules": 0, "explored": 0, "violating": 0, "refused": 0, "seconds": 0.0}
        recording = Recording(**job.where(), **nothing, truncated=reason[:300])
        replace(job, recording, [])


def replace(job: Job, recording: Recording, schedules: list[RecordedSchedule]) -> None:
    """Replace the recording of `job` and its schedules, in one transaction."""
    with transaction.atomic(using=SERVICE):
        Recording.objects.using(SERVICE).filter(**job.where()).delete()
        recording.save(using=SERVICE)
        for schedule in schedules:
            schedule.recording = recording
        RecordedSchedule.objects.using(SERVICE).bulk_create(schedules, batch_size=500)


def version() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        return f"PostgreSQL {cursor.fetchone()[0].split()[0]}"


def written(
    schedule: Schedule, second_tries: list[Step], number: int, source: str
) -> RecordedSchedule:
    """Return a schedule to store; `source` is the file that the page shows beside it.

    Steps of second tries are numbered after those of the schedule. The first step of each second
    try is `alone`. A step has the fields of recorded_step() and of session_states(), with
    `versions` as texts, and `line` (in `source`, or 0), `where` and `observed`. An outcome is the
    exception that the process raised, or "".
    """
    writers: dict[str, int] = {}
    return RecordedSchedule(
        number=number,
        order=schedule.order,
        violation=schedule.violation,
        raises=schedule.raises,
        steps=[_step(step, source, writers) for step in schedule.timeline],
        second_tries=[
            {**_step(step, source, writers), "until": number, "alone": step.number == 1}
            for number, step in enumerate(second_tries, start=len(schedule.timeline) + 1)
        ],
        outcomes=[_raised(outcome.raised) for outcome in schedule.outcomes],
    )


def _step(step: Step, source: str, writers: dict[str, int]) -> dict[str, Any]:
    path = Path(step.filename)
    if path.is_relative_to(settings.BASE_DIR):
        path = path.relative_to(settings.BASE_DIR)
    return {
        **recorded_step(step),
        "line": step.lineno if step.filename == source else 0,
        "where": f"{path}:{step.lineno}",
        **_seen(step, writers),
    }


def _seen(step: Step, writers: dict[str, int]) -> dict[str, Any]:
    """Return what record() observed after a step, with the versions as texts."""
    writers |= step.observed["writers"]
    who = {xid: f"P{process}" for xid, process in writers.items()} | {"0": "–"}
    versions = [
        f"{key}\u00a0{place} xmin\u00a0{who.get(xmin, xmin)} xmax\u00a0{who.get(xmax, xmax)}"
        for key, place, xmin, xmax in step.observed["versions"]
    ]
    return {**step.observed, "versions": versions, "writers": {}}


def _raised(error: BaseException | None) -> str:
    if error is None:
        return ""
    text = re.sub(r"\s+", " ", str(error)).strip()
    return f"{type(error).__name__}: {text}"[:300]
