"""The pages of one exploration: a schedule as a picture, the scheduler, the queue of locks."""

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from lab.models import Recording
from lab.pages.decisions import branch, reach
from lab.pages.requested import exploring, number_in, page
from lab.pages.schedules import (
    RecordedExploration,
    around,
    groups,
    pictures,
    read,
    sheet_of,
    shown,
)
from lab.recording.jobs import READ_COMMITTED, Job, job_named, jobs_named
from lab.recording.source import digest, parts, source
from pginterleave.picture.history import locks, waits
from pginterleave.picture.wording import Step, words


@page
def exploration(request: HttpRequest, name: str, strategy: str, processes: int) -> HttpResponse:
    """Show an exploration: all its schedules, and one of them step by step.

    Parameters: `schedule`, by default the counterexample; `predict`, the number of steps after
    which the others are hidden; `guess`, the visitor's prediction; `level`, the isolation level.
    """
    job = job_named(name, strategy, str(processes), request.GET.get("level", ""))
    kept = read(job, request.GET.get("schedule", ""))
    context = about(request, job, kept)
    if kept:
        hidden_after = number_in(request, "predict", most=len(kept.schedule.steps) - 1)
        context |= {"orders": kept.orders, "schedule": kept.schedule, **around(kept)}
        context |= shown(kept, hidden_after) | {"groups": groups(kept.orders, kept.schedule.order)}
        context["guess"] = request.GET.get("guess", "")[:100]
        context["parts"] = parts(job.strategy, told=hidden_after is None)
    return render(request, "lab/exploration.html", context)


@page
def scheduler(request: HttpRequest, name: str, strategy: str, processes: int) -> HttpResponse:
    """Let the visitor choose the process that goes next after the steps `taken`."""
    job = job_named(name, strategy, str(processes), request.GET.get("level", ""))
    return render(request, "lab/scheduler.html", board(request, job))


def board(request: HttpRequest, job: Job) -> dict[str, Any]:
    """Return the context of the scheduler: the choices, the steps `taken`, and the source."""
    taken = request.GET.get("taken", "")
    kept = reach(job, taken)
    context = about(request, job, kept)
    if kept:
        context |= branch(kept, taken) | {"schedule": kept.schedule}
        context["parts"] = parts(job.strategy, told=False, at=context["lines"])
    return context


@page
def queue(request: HttpRequest) -> HttpResponse:
    """Show three processes that queue for a row, and their locks in PostgreSQL."""
    (job,) = jobs_named("queue")
    kept = read(job, "123", begins=True)  # each asks for the row before the first releases it
    context = about(request, job, kept)
    if kept:
        schedule = kept.schedule
        sheet = sheet_of(kept.recording, schedule, len(schedule.steps))
        described = f"Schedule {schedule.order}, step by step; the tables below say the same"
        context |= {"schedule": schedule, "moments": moments(schedule.steps)}
        context["pictures"] = pictures(sheet, described)
    return render(request, "lab/queue.html", context)


def moments(steps: list[Step]) -> list[dict[str, Any]]:
    """Return the locks that are held and waited for after each step of a schedule.

    The first in the `queue` waits longest. `pg_locks` were recorded after the step; the row locks
    follow from the steps, because PostgreSQL stores them in the rows.
    """
    return [
        {
            "number": number,
            "process": step["process"],
            "said": said.sent if step["waited_for"] else str(said),
            "held": [each for each in locks(steps) if each.first <= number < each.last],
            "queue": [each for each in waits(steps) if each.first <= number < each.last],
            "pg_locks": step["locks"],
        }
        for number, (step, said) in enumerate(zip(steps, words(steps), strict=True), start=1)
    ]


def about(request: HttpRequest, job: Job, kept: RecordedExploration | None) -> dict[str, Any]:
    standard = job.isolation == READ_COMMITTED
    return {
        "race": job.race,
        "strategy": job.strategy,
        "processes": range(1, job.processes + 1),
        "level": None if standard else job.isolation,
        "query": "" if standard else f"{urlencode({'level': job.isolation})}&",
        "job": job,
        "recording": kept and kept.recording,
        "failed": None if kept else Recording.objects.filter(**job.where()).first(),
        "changed": kept and kept.recording.source not in ("", digest(job.strategy)),
        "source": source(job.strategy),
        **exploring(request, None if kept else job),
    }
