"""The pages of one exploration: a schedule as a picture, the scheduler, the queue of locks."""

from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from lab.exceptions import NotFound
from lab.exploring import asked
from lab.exploring.explored import explored_in
from lab.exploring.explorer import FEW, MAX_SECONDS
from lab.exploring.jobs import READ_COMMITTED, Job, job_named, jobs_named, queue
from lab.exploring.source import parts, source
from lab.models import Exploration
from lab.pages.decisions import branch, reach
from lab.pages.requested import RELOAD, asked_for, is_operator, is_waiting, number_in, page
from lab.pages.schedules import around, choose, groups, pictures, sheet_of, shown
from lab.races.counts import COUNTS
from pginterleave.picture.history import locks, waits
from pginterleave.picture.wording import Step, words


@page
def exploration(request: HttpRequest, name: str, strategy: str, processes: int) -> HttpResponse:
    """Show an exploration: all its schedules, and one of them step by step.

    Parameters: `schedule`, by default the counterexample; `predict`, the number of steps after
    which the others are hidden; `guess`, the visitor's prediction; `level`, the isolation level.
    """
    job = job_named(name, strategy, str(processes), request.GET.get("level", ""))
    context = about(request, job)
    if found := context["explored"]:
        chosen = choose(found, request.GET.get("schedule", ""))
        hidden_after = number_in(request, "predict", most=len(chosen.schedule.steps) - 1)
        context |= {"schedule": chosen.schedule, **around(chosen), **shown(chosen, hidden_after)}
        context["groups"] = groups(found.ends, chosen.schedule.order)
        context["guess"] = request.GET.get("guess", "")[:100]
        context["parts"] = parts(job.strategy, told=hidden_after is None)
    return answer(request, "lab/exploration.html", context)


@page
def scheduler(request: HttpRequest, name: str, strategy: str, processes: int) -> HttpResponse:
    """Let the visitor choose the process that goes next after the steps `taken`."""
    job = job_named(name, strategy, str(processes), request.GET.get("level", ""))
    return answer(request, "lab/scheduler.html", board(request, job))


def board(request: HttpRequest, job: Job) -> dict[str, Any]:
    """Return the context of the scheduler: the choices, the steps `taken`, and the source."""
    context = about(request, job)
    if context["explored"]:
        taken = request.GET.get("taken", "")
        chosen = reach(context["explored"], taken)
        context |= branch(chosen, taken) | {"schedule": chosen.schedule}
        context["parts"] = parts(job.strategy, told=False, at=context["lines"])
    return context


@page
def queue_of_locks(request: HttpRequest) -> HttpResponse:
    """Show three processes that queue for a row, and their locks in PostgreSQL."""
    context = about(request, queue())
    if found := context["explored"]:
        # Each asks for the row before the first one releases it.
        schedule = choose(found, "123", begins=True).schedule
        sheet = sheet_of(found, schedule, len(schedule.steps))
        described = f"Schedule {schedule.order}, step by step; the tables below say the same"
        context |= {"schedule": schedule, "moments": moments(schedule.steps)}
        context["pictures"] = pictures(sheet, described)
    return answer(request, "lab/queue.html", context)


@require_POST
def change(request: HttpRequest) -> HttpResponse:
    """Cancel the exploration `what`, or else forget it, so that its page asks for it again."""
    if not is_operator(request):
        return render(request, "403.html", status=HTTPStatus.FORBIDDEN)
    try:
        (job, *_) = jobs_named(request.POST.get("what", ""))
    except NotFound as error:
        raise Http404(str(error)) from error
    found = Exploration.objects.filter(**job.where())
    if "cancel" in request.POST:
        # Its process sees this, and stops.
        found.filter(summary__isnull=True, problem="").update(problem="It was cancelled.")
    else:
        found.delete()
    return redirect(job.path)


def moments(steps: list[Step]) -> list[dict[str, Any]]:
    """Return the locks that are held and waited for after each step of a schedule.

    The first in the `queue` waits longest. `pg_locks` were read after the step; the row locks
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


def about(request: HttpRequest, job: Job) -> dict[str, Any]:
    """Return the context that is the same on all pages of an exploration, which it asks for."""
    standard = job.isolation == READ_COMMITTED
    found, count = asked_for(request, job), COUNTS.get(str(job))
    return {
        "race": job.race,
        "strategy": job.strategy,
        "processes": range(1, job.processes + 1),
        "level": None if standard else job.isolation,
        "query": "" if standard else f"{urlencode({'level': job.isolation})}&",
        "job": job,
        "asked": found,
        "running": asked.running,
        "most": MAX_SECONDS,
        "explored": explored_in(found, job),
        "total": count.schedules if count and count.schedules <= FEW else None,
        "is_operator": is_operator(request),
        "source": source(job.strategy),
    }


def answer(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    """Render a page; until its exploration is complete, the browser loads it again."""
    response = render(request, template, context)
    if is_waiting(context["asked"]):
        response["Refresh"] = str(RELOAD)
    return response
