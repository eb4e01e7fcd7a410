"""The pages of one exploration: a schedule as a picture, the visitor as the scheduler, a queue."""

from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from lab.models import Recording
from lab.pages.decisions import branch, reach
from lab.pages.lock_queue import moments
from lab.pages.requested import exploring, job_of, number_in
from lab.pages.schedules import (
    RecordedExploration,
    around,
    groups,
    pictures,
    read,
    sheet_of,
    shown,
)
from lab.recording.jobs import READ_COMMITTED, Job, jobs_named
from lab.recording.source import digest, parts, source


@never_cache
@require_safe
def exploration(request: HttpRequest, name: str, strategy: str, processes: int) -> HttpResponse:
    """Show an exploration: all its schedules, and one of them step by step.

    `schedule` names the one; by default it is the counterexample. `predict` hides what follows
    after so many of its steps, and `guess` is the visitor's answer. `level` is the isolation level.
    """
    job = job_of(request, name, strategy, processes)
    try:
        kept = read(job, request.GET.get("schedule", ""))
    except ValueError as error:
        raise Http404(str(error)) from error
    context = about(request, job, kept)
    if kept:
        hidden_after = number_in(request, "predict", most=len(kept.schedule.steps) - 1)
        context |= {"orders": kept.orders, "schedule": kept.schedule, **around(kept)}
        context |= shown(kept, hidden_after) | {"groups": groups(kept.orders, kept.schedule.order)}
        context["guess"] = request.GET.get("guess", "")[:100]
        context["parts"] = parts(job.strategy, told=hidden_after is None)
    return render(request, "lab/exploration.html", context)


@never_cache
@require_safe
def scheduler(request: HttpRequest, name: str, strategy: str, processes: int) -> HttpResponse:
    """Let the visitor decide who goes next: after the steps `taken`, of recorded schedules."""
    job = job_of(request, name, strategy, processes)
    taken = request.GET.get("taken", "")
    try:
        kept = reach(job, taken)
    except ValueError as error:
        raise Http404(str(error)) from error
    context = about(request, job, kept)
    if kept:
        context |= board(job, kept, taken)
    return render(request, "lab/scheduler.html", context)


def board(job: Job, kept: RecordedExploration, taken: str) -> dict[str, Any]:
    """Return what the visitor plays with: who may go next, the steps so far, and the source."""
    found = branch(kept, taken)
    told = parts(job.strategy, told=False, at=found["lines"])
    return {**found, "schedule": kept.schedule, "parts": told}


@never_cache
@require_safe
def queue(request: HttpRequest) -> HttpResponse:
    """Show three processes that queue for a row, and what PostgreSQL says of it."""
    (job,) = jobs_named("queue")
    kept = read(job, "123", begins=True)  # each asks for the row before the first lets go
    context = about(request, job, kept)
    if kept:
        schedule = kept.schedule
        context |= {
            "schedule": schedule,
            "moments": moments(schedule.steps),
            "pictures": pictures(
                sheet_of(kept.recording, schedule, len(schedule.steps)),
                f"Schedule {schedule.order}, step by step; the tables below tell the same",
            ),
        }
    return render(request, "lab/queue.html", context)


def about(request: HttpRequest, job: Job, kept: RecordedExploration | None) -> dict[str, Any]:
    """Return what every page of an exploration says of it."""
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
