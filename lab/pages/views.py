"""The lab's pages of several explorations: they show the counts of lab/races/counts.json."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from lab.exploring.jobs import job_named, race_named
from lab.exploring.source import diff, source
from lab.pages import measured
from lab.pages.exploration_views import answer, board
from lab.pages.requested import page
from lab.pages.tables import Counted
from lab.races import EVERY_RACE, OPERATIONS
from lab.races.museum import MUSEUM
from shorturl.strategies.table import Verdict


@page
def index(request: HttpRequest) -> HttpResponse:
    """Show a game with the goal to lose a hit, the matrix, the races, and the last load test."""
    counted = Counted()
    context = {
        **board(request, job_named("lost_update", "naive")),
        "races": [each for name, each in EVERY_RACE.items() if name not in MUSEUM],
        "tables": [counted.matrix(operation) for operation in OPERATIONS],
        "load": measured.last_run(counted),
    }
    return answer(request, "lab/index.html", context)


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
        "table": Counted().of_race(found),
        "choices": [("left", sides[0].name), ("right", sides[1].name)],
        "paths": [each.path for each in sources],
        "diff": diff(*sources),
    }
    return render(request, "lab/race.html", context)


@page
def isolation(request: HttpRequest) -> HttpResponse:
    """Show what the isolation levels change: race × strategy × level."""
    return render(request, "lab/isolation.html", {"tables": Counted().isolation()})


@page
def museum(request: HttpRequest) -> HttpResponse:
    """Show the museum: races of real URL shorteners."""
    counted = Counted()
    exhibits = [(exhibit, counted.of_race(exhibit)) for exhibit in MUSEUM.values()]
    return render(request, "lab/museum.html", {"exhibits": exhibits})
