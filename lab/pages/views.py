"""The lab's pages of several cells, with the counts of the recordings."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from lab.pages.exploration_views import scheduler_context
from lab.pages.load_runs import read_last_run
from lab.pages.requested import page
from lab.races import EVERY_RACE, OPERATIONS
from lab.races.museum import MUSEUM
from lab.recordings import tables
from lab.recordings.cells import ISOLATED, find_cell, find_race
from lab.recordings.source import diff, source
from shorturl.strategies.table import Verdict


@page
def index(request: HttpRequest) -> HttpResponse:
    """Show a game with the goal to lose a hit, and the matrix of each operation."""
    context = {
        **scheduler_context(request, find_cell("lost_update", "naive")),
        "tables": [(title, tables.of_operation(name)) for name, (title, *_) in OPERATIONS.items()],
    }
    return render(request, "lab/index.html", context)


@page
def race(request: HttpRequest, name: str) -> HttpResponse:
    """Show a race: the situation, the strategies' results, and the diff of any two strategies."""
    race = find_race(name)
    # By default a wrong strategy, if there is one, and a right one.
    first, *others = sorted(
        race.strategies.values(), key=lambda strategy: strategy.verdict is Verdict.RIGHT
    )
    right = next((other for other in others if other.verdict is Verdict.RIGHT), first)
    sides = [
        race.strategy(request.GET.get(side, default.name))
        for side, default in (("left", first), ("right", right))
    ]
    sources = [source(side) for side in sides]
    context = {
        "race": race,
        "exhibit": MUSEUM.get(name),
        "table": tables.of_race(race),
        "choices": [("left", sides[0].name), ("right", sides[1].name)],
        "paths": [side.path for side in sources],
        "diff": diff(*sources),
    }
    return render(request, "lab/race.html", context)


@page
def isolation(request: HttpRequest) -> HttpResponse:
    """Show what the isolation levels change: race × strategy × level."""
    shown = [(EVERY_RACE[name], tables.of_levels(EVERY_RACE[name])) for name in ISOLATED]
    return render(request, "lab/isolation.html", {"tables": shown})


@page
def museum(request: HttpRequest) -> HttpResponse:
    """Show the museum: races of real URL shorteners."""
    exhibits = [(exhibit, tables.of_race(exhibit)) for exhibit in MUSEUM.values()]
    return render(request, "lab/museum.html", {"exhibits": exhibits})


@page
def load_runs(request: HttpRequest) -> HttpResponse:
    """Show the results of the last load test, a table for each race; reload it while it runs."""
    last_run = read_last_run()
    response = render(request, "lab/load_runs.html", {"load": last_run})
    if last_run and last_run["is_running"]:
        response["Refresh"] = "2"
    return response
