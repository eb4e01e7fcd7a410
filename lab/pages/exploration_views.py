"""The pages of one cell: a schedule as a picture, the scheduler, the queue of locks."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from lab.pages.decisions import find_current_lines, find_focus, make_choice_context
from lab.pages.picture_file import make_file_context
from lab.pages.requested import lab_page, read_number
from lab.pages.schedules import (
    choose_schedule,
    find_first_schedule,
    group_by_outcome,
    list_moments,
    make_neighbour_context,
    make_picture,
    make_schedule_context,
)
from lab.recordings.cells import READ_COMMITTED, Cell, find_cell
from lab.recordings.recording import Recording, read_recording
from lab.recordings.source import hash_source, read_source, split_source


@lab_page
def exploration(request: HttpRequest, name: str, strategy: str, processes: int) -> HttpResponse:
    """Show the schedules of a cell, and the picture of one of them.

    The query may have `schedule`, by default the counterexample; `level`, the isolation level;
    `predict`, the number of steps that are not hidden; `guess`, the visitor's prediction.
    """
    cell = find_cell(name, strategy, str(processes), request.GET.get("level", ""))
    recording = read_recording(cell)
    chosen = choose_schedule(recording, request.GET.get("schedule", ""))
    hidden_after = read_number(request, "predict", maximum=len(chosen.schedule.steps) - 1)
    context = {
        **make_cell_context(recording),
        **make_neighbour_context(chosen),
        **make_schedule_context(chosen, hidden_after),
        "schedule": chosen.schedule,
        "groups": group_by_outcome(recording.ends, chosen.schedule.order),
        "guess": request.GET.get("guess", "")[:100],
        "parts": split_source(cell.strategy, with_docstring=hidden_after is None),
    }
    return render(request, "lab/exploration.html", context)


@lab_page
def scheduler(request: HttpRequest, name: str, strategy: str, processes: int) -> HttpResponse:
    """Let the visitor choose the process that goes next after the steps `taken`."""
    cell = find_cell(name, strategy, str(processes), request.GET.get("level", ""))
    return render(request, "lab/scheduler.html", make_scheduler_context(cell, request.GET))


def make_scheduler_context(cell: Cell, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the context of the scheduler: the choices, the steps `taken`, and the source.

    The query may have `taken`, and `back` if the last one was undone.
    """
    recording = read_recording(cell)
    taken = query.get("taken", "")
    chosen = find_first_schedule(recording, taken)
    lines = find_current_lines(chosen.schedule, taken)
    choice_context = make_choice_context(chosen, taken)
    focus = ""  # on the first page, the browser's own
    if "taken" in query:
        focus = find_focus(choice_context["choices"], taken, went_back="back" in query)
    return {
        **make_cell_context(recording),
        **choice_context,
        "focus": focus,
        "schedule": chosen.schedule,
        "parts": split_source(cell.strategy, with_docstring=False, processes_by_line=lines),
    }


@lab_page
def picture(request: HttpRequest, name: str, strategy: str, processes: int) -> HttpResponse:
    """Return the picture of a schedule as an SVG file; the query is that of its page."""
    cell = find_cell(name, strategy, str(processes), request.GET.get("level", ""))
    chosen = choose_schedule(read_recording(cell), request.GET.get("schedule", ""))
    schedule = chosen.schedule
    context = make_file_context(make_picture(chosen.recording, schedule, len(schedule.steps)))
    context["description"] = f"{cell.race.title} with {strategy}, schedule {schedule.order}"
    response = render(request, "lab/picture.svg", context, content_type="image/svg+xml")
    file_name = f"{name}-{strategy}-{schedule.order}.svg"
    response["Content-Disposition"] = f'attachment; filename="{file_name}"'
    return response


@lab_page
def queue_of_locks(request: HttpRequest) -> HttpResponse:
    """Show the queue for a row that three processes lock."""
    recording = read_recording(find_cell("lost_update", "select_for_update", processes="3"))
    # Each process requests the row before the first one releases it.
    chosen = find_first_schedule(recording, "123")
    context = {
        **make_cell_context(recording),
        **make_schedule_context(chosen, hidden_after=None),
        "schedule": chosen.schedule,
        "moments": list_moments(chosen.schedule.steps),
    }
    return render(request, "lab/queue.html", context)


def make_cell_context(recording: Recording) -> dict[str, Any]:
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
        "is_stale": hash_source(cell.strategy) != recording.count.source,
        "source": read_source(cell.strategy),
    }
