"""The pages of a room: phones vote, and the laptop that serves them shows the votes.

The teacher is whoever uses the laptop itself, so the room needs no accounts.
"""

import secrets
from collections import Counter
from functools import wraps
from ipaddress import ip_address
from typing import Any

import segno
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import mark_safe

from lab.exceptions import NotFound
from lab.pages.exploration_views import make_scheduler_context
from lab.pages.requested import View, lab_form, lab_page
from lab.recordings.cells import Cell, find_cell
from lab.room import models
from shorturl.client_address import client_address

COOKIE = "phone"
NO_COOKIE = (
    "Your vote is not counted, as your browser has lost the cookie of this page: vote again."
)


@lab_page
def room(request: HttpRequest) -> HttpResponse:
    """Show a phone the question, with its own vote; a new phone gets a cookie."""
    phone = read_phone(request)
    context = make_question_context(models.Question.objects.first(), phone)
    response = render(request, "room/room.html", context)
    if not phone:
        path = reverse("lab:room")
        token = secrets.token_urlsafe(12)
        response.set_signed_cookie(COOKIE, token, path=path, httponly=True, samesite="Lax")
    return response


@lab_form
def vote(request: HttpRequest) -> HttpResponse:
    """Count the vote of a phone, unless the step was taken meanwhile.

    Without its cookie a phone could vote twice. The page that it gets sets a new one.
    """
    cell, taken, order = (request.POST.get(name, "") for name in ("cell", "taken", "order"))
    choices = make_scheduler_context(parse_cell(cell), {"taken": taken})["choices"]
    if not order or order not in [choice.order for choice in choices]:
        raise NotFound(f"{order[:50]!r} is no step after {taken[:50]!r}.")
    if phone := read_phone(request):
        models.vote(phone, order, cell=cell, taken=taken)
    else:
        messages.error(request, NO_COOKIE)
    return redirect("lab:room")


def leader_page(view: View) -> View:
    """Decorate a view for the laptop that serves the room; others get the page of the phones."""

    @wraps(view)
    def wrapped(request: HttpRequest) -> HttpResponse:
        address = client_address(request.META)
        if address and ip_address(address).is_loopback:
            return view(request)
        return redirect("lab:room")

    return wrapped


@lab_page
@leader_page
def lead(request: HttpRequest) -> HttpResponse:
    """Show the question and its votes, or for a `cell` the button that opens the room."""
    if cell := request.GET.get("cell"):
        return render(request, "room/open.html", {"cell": parse_cell(cell)})
    address = f"{settings.SHORTURL_ORIGIN}{reverse('lab:room')}"
    context = {
        **make_question_context(models.Question.objects.first()),
        "address": address,
        "qr_code": mark_safe(segno.make_qr(address).svg_inline(light="#fff", omitsize=True)),  # noqa: S308
        "is_reachable": settings.HOST not in ("127.0.0.1", "localhost", "::1", "[::1]"),
    }
    return render(request, "room/lead.html", context)


@lab_form
@leader_page
def ask(request: HttpRequest) -> HttpResponse:
    """Ask what comes after the steps `taken`, or end the room, of which nothing is left.

    With `open`, the votes of a room that was left open are deleted.
    """
    if "end" in request.POST:
        models.end()
        return redirect("lab:index")
    cell = parse_cell(request.POST.get("cell", ""))
    taken = request.POST.get("taken", "")
    make_scheduler_context(cell, {"taken": taken})  # raises NotFound for steps without a recording
    models.ask(str(cell), taken, is_new="open" in request.POST)
    return redirect("lab:lead_room")


def read_phone(request: HttpRequest) -> str:
    """Return the token in the cookie of a phone, or "" without a cookie that this page has set."""
    return str(request.get_signed_cookie(COOKIE, default=""))


def parse_cell(text: str) -> Cell:
    """Return the cell of race/strategy/processes/level; raise NotFound."""
    try:
        race, strategy, processes, level = text.split("/")
    except ValueError as error:
        raise NotFound(f"A cell is race/strategy/processes/level, not {text[:50]!r}.") from error
    return find_cell(race, strategy, processes, level.replace("-", " "))


def make_question_context(question: models.Question | None, phone: str = "") -> dict[str, Any]:
    """Return the scheduler's context, with the votes of each choice and that of the phone."""
    if question is None:
        return {"state": "no room"}
    context = make_scheduler_context(parse_cell(question.cell), {"taken": question.taken})
    counts = Counter(question.votes.values())
    voted = question.votes.get(phone, "")
    return {
        **context,
        "votes": [(choice, counts[choice.order]) for choice in context["choices"]],
        "count": counts.total(),
        "voted": voted,
        # What a page shows; room.js compares it.
        "state": f"{question.cell} {question.taken} {voted if phone else sorted(counts.items())}",
    }
