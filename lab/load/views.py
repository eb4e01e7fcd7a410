"""The endpoints of load tests: any strategy over HTTP, in a key space.

A request runs one function of a strategy once, without a delay. `combined` counts one hit here. The
service's own /KEY also works with the keys of a space, and there a statement counts all that wait.
"""

import platform
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from importlib import metadata
from typing import Any

import django
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse

from lab.load import key_spaces
from lab.load.endpoint import body, endpoint, field, key_space, own, target
from lab.models import KeySpace
from shorturl import following
from shorturl.api.error_responses import ApiError
from shorturl.exceptions import InFlight, QuotaExceeded
from shorturl.links.validators import location, shortened
from shorturl.models import ShortUrl
from shorturl.strategies.creating import on_conflict
from shorturl.strategies.exhibits.totals import TOTAL_HITS, VISITS
from shorturl.strategies.table import STRATEGIES, Strategy
from shorturl.visits.classification import classify_visit

# Links on a page of a space's list. A thousand are about 80 kB of JSON.
PAGE = 1_000
LISTED = "id", "key", "target_url", "total_hits", "max_hits", "visits"

# So long that none ends during a load run: they begin in 1970, 1997, 2024 and 2052.
PERIOD = timedelta(days=10_000)

# --- The operations ------------------------------------------------------------------------------


@endpoint("POST", STRATEGIES["creating"])
def create(request: HttpRequest, strategy: Strategy) -> HttpResponse:
    """Create a link in a space by `strategy`: {"space": …, "round": …, "target_url": …}."""
    content, space, target_url, _ = asked(request)
    number = field(content, "round", int)
    if not 0 <= number < key_spaces.ROUNDS:
        detail = f"round: {number} is out of range: use 0 to {key_spaces.ROUNDS - 1}."
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
    limit = {"max_hits": field(content, "max_hits", int)} if content.get("max_hits") else {}
    keys = key_spaces.SpaceCandidates(space, number)
    short_url = strategy.function(target_url, keys=keys, **limit)
    answer = {"key": short_url.key, "target_url": short_url.target_url}
    return JsonResponse(answer, status=HTTPStatus.CREATED)


@endpoint("POST", STRATEGIES["reusing"])
def reuse(request: HttpRequest, strategy: Strategy) -> HttpResponse:
    """Return a link to the target in a space by `strategy`: {"space": …, "target_url": …}."""
    _, _, target_url, make = asked(request)
    short_url, created = strategy.function(target_url, owner_id=None, create=make)
    return JsonResponse({"key": short_url.key, "target_url": target_url, "created": created})


@endpoint("POST", STRATEGIES["idempotency"])
def answer(request: HttpRequest, strategy: Strategy) -> HttpResponse:
    """Create a link in a space by `strategy`, once per target: {"space": …, "target_url": …}.

    The target is also the Idempotency-Key. The key is empty while the request is in progress.
    """
    _, space, target_url, make = asked(request)

    def work() -> dict[str, Any]:
        return {"status": HTTPStatus.CREATED, "body": make().key}

    try:
        key = strategy.function(space.name, target_url, "", work=work).body
    except InFlight:
        key = ""
    return JsonResponse({"key": key, "target_url": target_url})


@endpoint("POST", STRATEGIES["spending"])
def spend(request: HttpRequest, strategy: Strategy) -> HttpResponse:
    """Create a link in a space, charged to the quota of a spender by `strategy`.

    {"space": …, "target_url": …, "spender": …, "limit": …}; the last two are numbers. The link's
    key is empty if the quota is used up.
    """
    content, space, target_url, make = asked(request)
    spender, limit = f"{space.name} {field(content, 'spender', int)}", field(content, "limit", int)
    try:
        key = strategy.function(spender, make, limit=limit, period=PERIOD).key
    except QuotaExceeded:
        key = ""
    return JsonResponse({"key": key, "target_url": target_url})


def asked(request: HttpRequest) -> tuple[dict[str, Any], KeySpace, str, Callable[[], ShortUrl]]:
    content = body(request)
    space = key_space(field(content, "space", str), by=key_spaces.remembered)
    target_url = target(content, space)
    keys = key_spaces.SpaceCandidates(space)
    return content, space, target_url, partial(on_conflict.create, target_url, keys=keys)


@endpoint("GET", STRATEGIES["resolving"])
def resolve(request: HttpRequest, strategy: Strategy, key: str) -> HttpResponse:
    """Redirect to the target of `key` and count the hit by `strategy`.

    X-Hits is the counter as the strategy knows it, if it does. Two answers with the same number
    prove a lost update.
    """
    own(key)
    return redirect(key, strategy.function)


@endpoint("GET", STRATEGIES["recording_visits"])
def record(request: HttpRequest, strategy: Strategy, key: str) -> HttpResponse:
    """Redirect to the target of `key`, count the hit and record the visit by `strategy`.

    The request's headers classify the visit. X-Hits is as in resolve().
    """
    own(key)
    visit = classify_visit(request.META, with_country=bool(settings.SHORTURL_GEOIP))
    return redirect(key, partial(strategy.function, visit=visit))


def redirect(key: str, function: Callable[[str], ShortUrl]) -> HttpResponse:
    try:
        short_url = function(key)
    except ShortUrl.DoesNotExist:
        following.look_up(key)  # which says why
        raise
    response = HttpResponseRedirect(location(short_url.target_url))
    hits = vars(short_url).get("hits")  # None if the strategy has not fetched it
    if isinstance(hits, int):  # and not an expression, which only the database evaluates
        response["X-Hits"] = str(hits)
    return response


@endpoint("POST")
def edit(request: HttpRequest, key: str) -> HttpResponse:
    """Change the target of `key` in one statement, as a user would: {"target_url": …}."""
    target_url = target(body(request), own(key))
    if not ShortUrl.objects.filter(key=key).update(target_url=target_url):
        raise ApiError(HTTPStatus.NOT_FOUND, f"There is no short URL {shortened(key)!r}.")
    return JsonResponse({"key": key, "target_url": target_url})


# --- The spaces ----------------------------------------------------------------------------------


@endpoint("POST")
def spaces(request: HttpRequest) -> HttpResponse:
    """Open a key space, {"key_length": …}; return the strategies with their verdicts."""
    key_length = field(body(request), "key_length", int)
    try:
        space = key_spaces.open_space(key_length)
    except ValueError as error:
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, f"key_length: {error}.") from error
    answer = {
        "space": space.name,
        "targets": key_spaces.targets(space.name),
        "operations": {
            operation: {name: strategy.verdict.value for name, strategy in strategies.items()}
            for operation, strategies in STRATEGIES.items()
        },
        "records_visits": bool(settings.SHORTURL_VISITS),
        "versions": versions(),
    }
    return JsonResponse(answer, status=HTTPStatus.CREATED)


def versions() -> dict[str, str]:
    """Return the versions that the service runs on, for the report of a load test."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version')")
        (postgresql,) = cursor.fetchone()
    return {
        "Python": platform.python_version(),
        "Django": django.get_version(),
        "gunicorn": metadata.version("gunicorn"),
        "PostgreSQL": postgresql.split()[0],
    }


@endpoint("DELETE")
def space(request: HttpRequest, name: str) -> HttpResponse:
    return JsonResponse({"removed": key_spaces.close(key_space(name))})


@endpoint("GET")
def links(request: HttpRequest, name: str) -> HttpResponse:
    """List links of a space, as [key, target URL, hits, limit, visits].

    One statement reads hits and visits. `next` is the address of the next page.
    """
    after = request.GET.get("after", "0")
    if not after.isdecimal() or len(after) > 18:
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, "after: send the number from `next`.")
    space = key_space(name)
    found = key_spaces.links(space.name).filter(id__gt=int(after)).order_by("id")
    found = found.annotate(total_hits=TOTAL_HITS, visits=VISITS)
    page = list(found.values_list(*LISTED)[:PAGE])
    next_page = f"{request.path}?after={page[-1][0]}" if len(page) == PAGE else None
    return JsonResponse({"links": [row for _, *row in page], "next": next_page})
