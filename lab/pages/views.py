"""The lab's pages: they show the explorations of this machine, and start explorations."""

from contextlib import suppress
from http import HTTPStatus
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

from lab.exceptions import AlreadyExploring, NotFound
from lab.models import Batch, Recording
from lab.pages import measured
from lab.pages.exploration_views import board
from lab.pages.requested import exploring, may_explore, page
from lab.pages.tables import Recorded, RecordedCell
from lab.races import EVERY_RACE, OPERATIONS, RACES
from lab.races.museum import MUSEUM
from lab.recording import batches
from lab.recording.jobs import ISOLATED, READ_COMMITTED, jobs_named, race_named
from lab.recording.source import diff, source
from shorturl.strategies.strategy import Verdict


@page
def index(request: HttpRequest) -> HttpResponse:
    """Show a game with the goal to lose a hit, the matrix, the races, and the last load test."""
    (game,) = jobs_named("lost_update/naive")
    recorded = Recorded(Recording.objects.all())
    context = {
        **board(request, game),
        "races": [each for name, each in EVERY_RACE.items() if name not in MUSEUM],
        "tables": [recorded.matrix(operation) for operation in OPERATIONS],
        "newest": newest(race__in=RACES, isolation=READ_COMMITTED),
        "load": measured.last_run(recorded),
        "last_run": Batch.objects.order_by("-pk").first(),
        **exploring(request),
    }
    return render(request, "lab/index.html", context)


@page
def race(request: HttpRequest, name: str) -> HttpResponse:
    """Show a race: the situation, the strategies' results, and the diff of any two strategies.

    A race of what the service runs may have a single row, and then shows no diff.
    """
    found = race_named(name)
    # By default a wrong strategy, if there is one, and a right one.
    first, *others = sorted(
        found.strategies.values(), key=lambda each: each.verdict is Verdict.RIGHT
    )
    right = next((each for each in others if each.verdict is Verdict.RIGHT), first)
    sides = [
        found.strategy(request.GET.get(side, default.name))
        for side, default in (("left", first), ("right", right))
    ]
    sources = [source(side) for side in sides]
    context = {
        "race": found,
        "exhibit": MUSEUM.get(name),
        "table": Recorded(Recording.objects.filter(race=name)).of_race(found),
        **exploring(request),
        "choices": [("left", sides[0].name), ("right", sides[1].name)],
        "paths": [each.path for each in sources],
        "diff": diff(*sources),
    }
    return render(request, "lab/race.html", context)


@page
def isolation(request: HttpRequest) -> HttpResponse:
    """Show what the isolation levels change: race × strategy × level."""
    tables = Recorded(Recording.objects.filter(race__in=ISOLATED)).isolation()
    shown = {"tables": tables, "newest": newest(race__in=ISOLATED), **exploring(request)}
    return render(request, "lab/isolation.html", shown)


@page
def museum(request: HttpRequest) -> HttpResponse:
    """Show the museum: races of real URL shorteners."""
    recorded = Recorded(Recording.objects.filter(race__in=MUSEUM))
    exhibits = [(exhibit, recorded.of_race(exhibit)) for exhibit in MUSEUM.values()]
    shown = {"exhibits": exhibits, "newest": newest(race__in=MUSEUM), **exploring(request)}
    return render(request, "lab/museum.html", shown)


@require_POST
def explore(request: HttpRequest) -> HttpResponse:
    """Start to explore `what`, an argument of the command `record`."""
    if not may_explore(request):
        return render(request, "403.html", status=HTTPStatus.FORBIDDEN)
    what = request.POST.get("what", "")
    try:
        jobs = jobs_named(what)
        return redirect("lab:batch", batches.start(what, len(jobs)).pk)
    except NotFound as error:
        raise Http404(str(error)) from error
    except AlreadyExploring:
        newest = Batch.objects.order_by("-pk").first()
        return redirect("lab:batch", newest.pk) if newest else redirect("lab:index")


@page
def batch(request: HttpRequest, number: int) -> HttpResponse:
    found = get_object_or_404(Batch, pk=number)
    cell = None
    with suppress(NotFound):  # the catalogue no longer has it
        cell = RecordedCell(jobs_named(found.what)[0], None) if "/" in found.what else None
    context = {"batch": found, "lost": batches.is_lost(found), "cell": cell}
    return render(request, "lab/batch.html", context)


def newest(**where: Any) -> Recording | None:
    return Recording.objects.filter(**where).order_by("-recorded_at").first()
