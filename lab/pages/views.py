"""The lab's pages: they show what was explored on this machine, and start explorations."""

from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from lab.catalogue import EVERY_RACE, OPERATIONS, RACES
from lab.catalogue.museum import MUSEUM
from lab.catalogue.race_definition import Race
from lab.exceptions import AlreadyExploring
from lab.models import Batch, Recording
from lab.pages import measured
from lab.pages.schedules import around, read, steps
from lab.pages.tables import Recorded, RecordedCell
from lab.recording import batches
from lab.recording.jobs import ISOLATED, LEVELS, READ_COMMITTED, Job, jobs_named
from lab.recording.source import diff, digest, source
from shorturl.strategies import Strategy, Verdict


def may_explore(request: HttpRequest) -> bool:
    """Return whether the visitor may start an exploration: everybody locally, else the staff."""
    return settings.LOCAL or request.user.is_staff


@never_cache
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Show the races in the order of the story, the matrix, and the last load test."""
    recorded = Recorded(Recording.objects.all())
    context = {
        "races": RACES.values(),
        "tables": [recorded.matrix(operation) for operation in OPERATIONS],
        "newest": newest(race__in=RACES, isolation=READ_COMMITTED),
        "load": measured.last_run(recorded),
        "batch": Batch.objects.order_by("-pk").first(),
        "may_explore": may_explore(request),
    }
    return render(request, "lab/index.html", context)


@never_cache
@require_safe
def race(request: HttpRequest, name: str) -> HttpResponse:
    """Show a race: the situation, the strategies with their results, any two as a diff."""
    found = race_named(name)
    strategies = found.strategies.values()
    wrong = next(each for each in strategies if each.verdict is not Verdict.RIGHT)
    right = next(each for each in strategies if each.verdict is Verdict.RIGHT)
    sides = [
        strategy_of(found, request.GET.get(side, default.name))
        for side, default in (("left", wrong), ("right", right))
    ]
    sources = [source(side) for side in sides]
    exhibit = MUSEUM.get(name)
    context = {
        "race": found,
        "exhibit": exhibit,
        "table": Recorded(Recording.objects.filter(race=name)).of_race(found),
        "choices": [("left", sides[0].name), ("right", sides[1].name)],
        "paths": [each.path for each in sources],
        "diff": diff(*sources),
    }
    return render(request, "lab/race.html", context)


@never_cache
@require_safe
def exploration(request: HttpRequest, name: str, strategy: str, processes: int) -> HttpResponse:
    """Show an exploration: all its schedules, and one of them step by step.

    `schedule` names the one; by default it is the counterexample. `predict` hides what follows
    after so many of its steps, and `guess` is the visitor's answer. `level` is the isolation level.
    """
    found = race_named(name)
    chosen = strategy_of(found, strategy)
    level = request.GET.get("level", READ_COMMITTED)
    if level not in LEVELS:
        raise Http404(f"The isolation levels are {', '.join(LEVELS)}.")
    if processes not in found.counts:
        counts = " or ".join(map(str, found.counts))
        raise Http404(f"{name} is explored with {counts} processes.")
    job = Job(found, chosen, processes, level)
    try:
        kept = read(job, request.GET.get("schedule", ""))
    except ValueError as error:
        raise Http404(str(error)) from error
    context: dict[str, Any] = {
        "race": found,
        "strategy": chosen,
        "processes": range(1, processes + 1),
        "level": None if level == READ_COMMITTED else level,
        "query": "" if level == READ_COMMITTED else f"{urlencode({'level': level})}&",
        "job": job,
        "recording": kept and kept.recording,
        "source": source(chosen),
        "may_explore": may_explore(request),
    }
    if kept:
        hidden_after = number_in(request, "predict", most=len(kept.schedule.steps) - 1)
        context["changed"] = kept.recording.source not in ("", digest(chosen))
        context |= {"orders": kept.orders, "schedule": kept.schedule, **around(kept)}
        context |= steps(kept.schedule, processes, hidden_after)
        context["guess"] = request.GET.get("guess", "")[:100]
        if hidden_after is not None:
            context["source"] = source(chosen, bare=True)
    return render(request, "lab/exploration.html", context)


@never_cache
@require_safe
def isolation(request: HttpRequest) -> HttpResponse:
    """Show what the isolation levels change: race × strategy × level."""
    recorded = Recorded(Recording.objects.filter(race__in=ISOLATED))
    context = {
        "tables": recorded.isolation(),
        "newest": newest(race__in=ISOLATED),
        "may_explore": may_explore(request),
    }
    return render(request, "lab/isolation.html", context)


@never_cache
@require_safe
def museum(request: HttpRequest) -> HttpResponse:
    """Show the museum: races of real URL shorteners."""
    recorded = Recorded(Recording.objects.filter(race__in=MUSEUM))
    context = {
        "exhibits": recorded.museum(),
        "newest": newest(race__in=MUSEUM),
        "may_explore": may_explore(request),
    }
    return render(request, "lab/museum.html", context)


@require_POST
def explore(request: HttpRequest) -> HttpResponse:
    """Start to explore `what`, which is written as for the command `record`."""
    if not may_explore(request):
        return render(request, "403.html", status=HTTPStatus.FORBIDDEN)
    what = request.POST.get("what", "")
    try:
        jobs = jobs_named(what)
        return redirect("lab:batch", batches.start(what, len(jobs)).pk)
    except ValueError as error:
        raise Http404(str(error)) from error
    except AlreadyExploring:
        newest = Batch.objects.order_by("-pk").first()
        return redirect("lab:batch", newest.pk) if newest else redirect("lab:index")


@never_cache
@require_safe
def batch(request: HttpRequest, number: int) -> HttpResponse:
    """Show the progress of a batch."""
    found = get_object_or_404(Batch, pk=number)
    cell = None
    with suppress(ValueError):  # for what the catalogue has no longer
        cell = RecordedCell(jobs_named(found.what)[0], None) if "/" in found.what else None
    context = {"batch": found, "lost": batches.is_lost(found), "cell": cell}
    return render(request, "lab/batch.html", context)


def newest(**where: Any) -> Recording | None:
    """Return the recording that was made last, of those; None when there is none."""
    return Recording.objects.filter(**where).order_by("-recorded_at").first()


def race_named(name: str) -> Race:
    """Return the race `name`; raise Http404 without one."""
    if name not in EVERY_RACE:
        raise Http404(f"There is no race {name!r}; there are {', '.join(EVERY_RACE)}.")
    return EVERY_RACE[name]


def strategy_of(race: Race, name: str) -> Strategy[Any]:
    """Return the strategy `name`; raise Http404 when it takes no part."""
    try:
        return race.strategy(name)
    except ValueError as error:
        raise Http404(str(error)) from error


def number_in(request: HttpRequest, name: str, *, most: int) -> int | None:
    """Return a number of the query, or None without it; raise Http404 when it is out of range."""
    text = request.GET.get(name, "")
    if not text:
        return None
    if not text.isdecimal() or int(text) > most:
        raise Http404(f"{name} must be a number from 0 to {most}, not {text[:20]!r}.")
    return int(text)
