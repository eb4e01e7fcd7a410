"""The lab's pages that show several cells, with the counts of the recordings."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from lab.pages.exploration_views import make_scheduler_context
from lab.pages.load_runs import read_last_run
from lab.pages.requested import lab_page
from lab.races import EVERY_RACE, OPERATIONS
from lab.races.museum import MUSEUM
from lab.recordings import tables
from lab.recordings.cells import ISOLATED, find_cell, find_race
from lab.recordings.source import diff_sources, read_source
from shorturl.strategies.table import Verdict


@lab_page
def index(request: HttpRequest) -> HttpResponse:
    """Show the scheduler of a race that loses a hit, and the matrix of each operation."""
    context = {
        **make_scheduler_context(find_cell("lost_update", "naive"), request.GET),
        "tables": [
            (operation.title, tables.make_operation_table(name))
            for name, operation in OPERATIONS.items()
        ],
    }
    return render(request, "lab/index.html", context)


@lab_page
def race(request: HttpRequest, name: str) -> HttpResponse:
    """Show a race: the situation, the strategies' results, and the diff of two strategies.

    By default the diff is that of a wrong strategy and a right one.
    """
    race = find_race(name)
    strategies = list(race.strategies.values())
    strategies.sort(key=lambda strategy: strategy.verdict is Verdict.RIGHT)  # wrong ones first
    first, *others = strategies
    second = next((other for other in others if other.verdict is Verdict.RIGHT), first)
    left = race.find_strategy(request.GET.get("left", first.name))
    right = race.find_strategy(request.GET.get("right", second.name))
    sources = [read_source(left), read_source(right)]
    context = {
        "race": race,
        "exhibit": MUSEUM.get(name),  # if the race is of the museum
        "table": tables.make_race_table(race),
        "choices": [("left", left.name), ("right", right.name)],
        "paths": [source.path for source in sources],
        "diff": diff_sources(*sources),
    }
    return render(request, "lab/race.html", context)


@lab_page
def isolation(request: HttpRequest) -> HttpResponse:
    """Show what the isolation levels change: race × strategy × level."""
    races = [EVERY_RACE[name] for name in ISOLATED]
    context = {"tables": [(race, tables.make_level_table(race)) for race in races]}
    return render(request, "lab/isolation.html", context)


@lab_page
def museum(request: HttpRequest) -> HttpResponse:
    """Show the museum: races of real projects."""
    exhibits = [(exhibit, tables.make_race_table(exhibit)) for exhibit in MUSEUM.values()]
    return render(request, "lab/museum.html", {"exhibits": exhibits})


@lab_page
def load_runs(request: HttpRequest) -> HttpResponse:
    """Show the results of the last load test, a table for each race; reload it while it runs."""
    last_run = read_last_run()
    response = render(request, "lab/load_runs.html", {"load": last_run})
    if last_run and last_run["is_running"]:
        response["Refresh"] = "2"
    return response
