"""Reads which exploration or number a request asks for, and says what is being explored."""

from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest

from lab.catalogue import EVERY_RACE
from lab.catalogue.race_definition import Race
from lab.models import Batch
from lab.recording import batches
from lab.recording.jobs import LEVELS, READ_COMMITTED, Job, jobs_named
from shorturl.strategies import Strategy


def may_explore(request: HttpRequest) -> bool:
    """Return whether the visitor may start an exploration: everybody locally, else the staff."""
    return settings.LOCAL or request.user.is_staff


def exploring(request: HttpRequest, job: Job | None = None) -> dict[str, Any]:
    """Return for a page which batch `goes_on`, or None, and whether the visitor `may_explore`.

    For the page of one exploration, `job`, only a batch that contains it goes on. That batch
    explores it next.
    """
    newest = Batch.objects.order_by("-pk").first()
    goes_on = newest and not batches.is_over(newest)
    if newest and goes_on and job:
        goes_on = str(job) in map(str, jobs_named(newest.what))
        if goes_on and may_explore(request):
            Batch.objects.filter(pk=newest.pk).update(wanted=str(job))
    return {"goes_on": newest if goes_on else None, "may_explore": may_explore(request)}


def job_of(request: HttpRequest, name: str, strategy: str, processes: int) -> Job:
    """Return the exploration of an address and its query; raise Http404 where there is none."""
    found = race_named(name)
    chosen = strategy_of(found, strategy)
    level = request.GET.get("level", READ_COMMITTED)
    if level not in LEVELS:
        raise Http404(f"The isolation levels are {', '.join(LEVELS)}.")
    if processes not in found.counts:
        counts = " or ".join(map(str, found.counts))
        raise Http404(f"{name} is explored with {counts} processes.")
    return Job(found, chosen, processes, level)


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
