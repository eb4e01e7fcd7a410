"""The pages of one cell: a schedule as a picture, the scheduler, the queue of locks."""

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from lab.pages.decisions import branch
from lab.pages.requested import page, read_number
from lab.pages.schedules import (
    choose,
    group_by_outcome,
    moments,
    neighbours,
    pictures_of,
    sheet_of,
    shown,
)
from lab.recordings.cells import READ_COMMITTED, Cell, find_cell
from lab.recordings.recording import Recording, read
from lab.recordings.source import digest, source, split_source


@page
def exploration(request: HttpRequest, name: str, strategy: str, processes: int) -> HttpResponse:
    """Show a cell: all its schedules, and one of them step by step.

    Parameters: `schedule`, by default the counterexample; `predict`, the number of steps after
    which the others are hidden; `guess`, the visitor's prediction; `level`, the isolation level.
    """
    cell = find_cell(name, strategy, str(processes), request.GET.get("level", ""))
    recording = read(cell)
    chosen = choose(recording, request.GET.get("schedule", ""))
    hidden_after = read_number(request, "predict", maximum=len(chosen.schedule.steps) - 1)
    context = {
        **cell_context(recording),
        **neighbours(chosen),
        **shown(chosen, hidden_after),
        "schedule": chosen.schedule,
        "groups": group_by_outcome(recording.ends, chosen.schedule.order),
        "guess": request.GET.get("guess", "")[:100],
        "parts": split_source(cell.strategy, with_docstring=hidden_after is None),
    }
    return render(request, "lab/exploration.html", context)


@page
def scheduler(request: HttpRequest, name: str, strategy: str, processes: int) -> HttpResponse:
    """Let the visitor choose the process that goes next after the steps `taken`."""
    cell = find_cell(name, strategy, str(processes), request.GET.get("level", ""))
    return render(request, "lab/scheduler.html", scheduler_context(request, cell))


def scheduler_context(request: HttpRequest, cell: Cell) -> dict[str, Any]:
    """Return the context of the scheduler: the choices, the steps `taken`, and the source."""
    recording = read(cell)
    taken = request.GET.get("taken", "")
    chosen = choose(recording, taken, begins=True)
    context = cell_context(recording) | branch(chosen, taken) | {"schedule": chosen.schedule}
    context["parts"] = split_source(
        cell.strategy, with_docstring=False, processes_by_line=context["lines"]
    )
    return context


@page
def queue_of_locks(request: HttpRequest) -> HttpResponse:
    """Show three processes that queue for a row."""
    recording = read(find_cell("lost_update", "select_for_update", "3"))
    # Each asks for the row before the first one releases it.
    schedule = choose(recording, "123", begins=True).schedule
    sheet = sheet_of(recording, schedule, len(schedule.steps))
    described = f"Schedule {schedule.order}, step by step; the table below says the same"
    context = {
        **cell_context(recording),
        **pictures_of(sheet, described),
        "schedule": schedule,
        "moments": moments(schedule.steps),
    }
    return render(request, "lab/queue.html", context)


def cell_context(recording: Recording) -> dict[str, Any]:
    """Return the context that is the same on all pages of a cell."""
    cell = recording.cell
    standard = cell.level == READ_COMMITTED
    return {
        "race": cell.race,
        "strategy": cell.strategy,
        "processes": range(1, cell.processes + 1),
        "level": None if standard else cell.level,
        "query": "" if standard else f"{urlencode({'level': cell.level})}&",
        "cell": cell,
        "recording": recording,
        "count": recording.count,
        "is_stale": digest(cell.strategy) != recording.count.source,
        "source": source(cell.strategy),
    }
