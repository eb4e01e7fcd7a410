"""Explores a race for the pages, which show every schedule with each step."""

import re
from collections.abc import Callable
from dataclasses import replace as with_changes
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection
from django.utils import timezone

from lab.exploring.explored import Explored, KeptSchedule, compressed
from lab.exploring.jobs import Job
from lab.exploring.session_states import session_states
from lab.exploring.source import file_of
from lab.races.counts import COUNTS
from lab.races.race_definition import Process
from pginterleave import Options, Outcome, Schedule, Step, explore
from pginterleave.picture.recorded import recorded_step
from shorturl.strategies.table import Strategy

MAX_SCHEDULES, MAX_SECONDS = 20_000, 120  # of one exploration, which keeps all its schedules
FEW = 300  # with more schedules, only those run that partial-order reduction leaves


def run(job: Job, progress: Callable[[int], object] = lambda _: None) -> Explored:
    """Explore in the default database, which is a scratch database, and return the result.

    `progress` is called with the number of schedules that have run. Raises the exceptions of
    Race.explore() and of `progress`.
    """
    kept: list[tuple[str, str, bool, bytes]] = []
    second: list[Step] = []  # of the second tries of one schedule
    initial: list[str] = []
    written_in, known = str(file_of(job.strategy)), COUNTS.get(str(job))

    def keep(schedule: Schedule) -> None:
        whole = compressed(written(schedule, second, written_in))
        kept.append((schedule.order, schedule.violation, schedule.raises, whole))
        progress(len(kept))

    def setup(strategy: Strategy) -> None:
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
            options=Options(observe=observe, on_schedule=alone.append),
        )
        second.extend(alone[0].timeline)
        return alone[0].outcomes[-1]

    result = with_changes(job.race, setup=setup, try_again=try_again).explore(
        job.strategy,
        job.processes,
        isolation_level=job.isolation,
        options=Options(
            observe=observe,
            on_schedule=keep,
            reduce=known is None or known.schedules > FEW,
        ),
        max_schedules=MAX_SCHEDULES,
        max_seconds=MAX_SECONDS,
    )
    kept.sort()  # by order: similar schedules become neighbours
    return Explored(
        job=job,
        schedules=result.schedules,
        ran=len(kept),
        violating=result.violating,
        refused=result.raising,
        truncated=result.truncated,
        counterexample=result.counterexample.order if result.counterexample else "",
        initial=initial[0],
        seconds=result.seconds,
        explored_at=f"{timezone.now():%Y-%m-%d %H:%M} UTC",
        postgresql=version(),
        orders=[(order, violation, raises) for order, violation, raises, _ in kept],
        kept=[whole for _, _, _, whole in kept],
    )


def version() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        return f"PostgreSQL {cursor.fetchone()[0].split()[0]}"


def written(schedule: Schedule, second_tries: list[Step], source: str) -> KeptSchedule:
    """Return a schedule to keep; `source` is the file that the page shows beside it.

    Steps of second tries are numbered after those of the schedule. The first step of each second
    try is `alone`. A step has the fields of recorded_step() and of session_states(), with
    `versions` as texts, and `line` (in `source`, or 0), `where` and `observed`. An outcome is the
    exception that the process raised, or "".
    """
    writers: dict[str, int] = {}
    return KeptSchedule(
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
    """Return what run() observed after a step, with the versions as texts."""
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
