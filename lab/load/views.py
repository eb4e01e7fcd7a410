"""What a load test calls: any strategy over HTTP, and the key space that it works in.

The strategies are the very functions that the service uses, and a request does here what one of
the service's own does: no more statements, no delay.
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
from django.db import ProgrammingError, connection
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from lab.load import key_spaces
from lab.load.inputs import body, check_target, field, for_programs, key_space, own, strategy_named
from lab.load.own_visits import visits_of
from lab.models import KeySpace
from lab.recorded_visits import VISITS
from shorturl import operations
from shorturl.api.error_responses import ApiError
from shorturl.exceptions import RowLocked
from shorturl.links.validators import ascii_url, shortened
from shorturl.models import IdempotencyRecord, ShortUrl
from shorturl.outages import is_outage
from shorturl.strategies import F, Strategy, creating, idempotency, resolving, reusing, spending
from shorturl.strategies.creating import on_conflict

# Links to a page of a space. A thousand are some 80 kB of JSON.
PAGE = 1_000
LISTED = "id", "key", "target_url", "total_hits", "max_hits", "visits"

# So long that none ends during a load run: they begin in 1970, 1997, 2024 and 2052.
PERIOD = timedelta(days=10_000)

UNAVAILABLE = (ShortUrl.KeySpaceExhausted, ShortUrl.Contended, RowLocked)

# --- The operations ------------------------------------------------------------------------------


@for_programs
@require_POST
def create(request: HttpRequest, strategy: str) -> HttpResponse:
    """Create a link in a space by `strategy`: {"space": …, "round": …, "target_url": …}."""
    chosen = strategy_named(strategy, creating.STRATEGIES)
    content = body(request)
    space = key_space(field(content, "space", str), by=key_spaces.remembered)
    target_url = field(content, "target_url", str)
    check_target(target_url, space)
    number = field(content, "round", int)
    if not 0 <= number < key_spaces.ROUNDS:
        detail = f"round: {number} is out of range: use 0 to {key_spaces.ROUNDS - 1}."
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
    limit = {"max_hits": field(content, "max_hits", int)} if content.get("max_hits") else {}
    candidates = key_spaces.SpaceCandidates(space.name, space.key_length, number)
    try:
        short_url = chosen.function(target_url, keys=candidates, **limit)
    except Exception as error:  # whatever it is, it is what this strategy does
        return failure(error, chosen)
    answer = {"key": short_url.key, "target_url": short_url.target_url}
    return JsonResponse(answer, status=HTTPStatus.CREATED)


@for_programs
@require_POST
def reuse(request: HttpRequest, strategy: str) -> HttpResponse:
    """Return a link to the target in a space by `strategy`: {"space": …, "target_url": …}."""
    chosen = strategy_named(strategy, reusing.STRATEGIES)
    _, target_url, make = link_in_a_space(request)
    try:
        short_url, created = chosen.function(target_url, owner_id=None, create=make)
    except Exception as error:  # whatever it is, it is what this strategy does
        return failure(error, chosen)
    return JsonResponse({"key": short_url.key, "target_url": target_url, "created": created})


@for_programs
@require_POST
def answer(request: HttpRequest, strategy: str) -> HttpResponse:
    """Create a link in a space once by `strategy`, however often: {"space": …, "target_url": …}.

    The target is the Idempotency-Key, too. The key of the link is empty while it is in progress.
    """
    chosen = strategy_named(strategy, idempotency.STRATEGIES)
    space, target_url, make = link_in_a_space(request)

    def work() -> dict[str, Any]:
        return {"status": HTTPStatus.CREATED, "body": make().key}

    try:
        key = chosen.function(space.name, target_url, "", work=work).body
    except IdempotencyRecord.InFlight:
        key = ""
    except Exception as error:  # whatever it is, it is what this strategy does
        return failure(error, chosen)
    return JsonResponse({"key": key, "target_url": target_url})


@for_programs
@require_POST
def spend(request: HttpRequest, strategy: str) -> HttpResponse:
    """Create a link in a space, if its spender has one left by `strategy`.

    {"space": …, "target_url": …, "spender": …, "limit": …}; the last two are numbers. The key of
    the link is empty when the quota is used up.
    """
    chosen = strategy_named(strategy, spending.STRATEGIES)
    space, target_url, make = link_in_a_space(request)
    content = body(request)
    spender, limit = f"{space.name} {field(content, 'spender', int)}", field(content, "limit", int)
    try:
        key = chosen.function(spender, make, limit=limit, period=PERIOD).key
    except ShortUrl.QuotaExceeded:
        key = ""
    except Exception as error:  # whatever it is, it is what this strategy does
        return failure(error, chosen)
    return JsonResponse({"key": key, "target_url": target_url})


def link_in_a_space(request: HttpRequest) -> tuple[KeySpace, str, Callable[[], ShortUrl]]:
    """Return the space and the target that a call names, and what makes a link there."""
    content = body(request)
    space = key_space(field(content, "space", str), by=key_spaces.remembered)
    target_url = field(content, "target_url", str)
    check_target(target_url, space)
    candidates = key_spaces.SpaceCandidates(space.name, space.key_length)
    return space, target_url, partial(on_conflict.create, target_url, keys=candidates)


@for_programs
@require_GET
def resolve(request: HttpRequest, strategy: str, key: str) -> HttpResponse:
    """Redirect to the target of `key` and count the hit by `strategy`.

    X-Hits says what the strategy takes the counter for, where it knows. Two answers with the same
    number prove a lost update.
    """
    chosen = strategy_named(strategy, resolving.STRATEGIES)
    own(key)  # or a wrong strategy could lose the hits of the service's own links
    return redirect(key, chosen.function, chosen)


def redirect(
    key: str, function: Callable[[str], ShortUrl], strategy: Strategy[Any]
) -> HttpResponse:
    """Redirect to the target of `key`, with the hit counted by the function of `strategy`."""
    try:
        short_url = operations.resolve_by(function, key)
    except Exception as error:  # whatever it is, it is what this strategy does
        return failure(error, strategy)
    response = HttpResponseRedirect(ascii_url(short_url.target_url))
    hits = vars(short_url).get("hits")  # nothing where the strategy has not fetched it
    if isinstance(hits, int):  # and not an expression, that only the database can tell
        response["X-Hits"] = str(hits)
    return response


@for_programs
@require_POST
def edit(request: HttpRequest, key: str) -> HttpResponse:
    """Have `key` lead somewhere else, in one statement, as a user would: {"target_url": …}."""
    target_url = field(body(request), "target_url", str)
    check_target(target_url, own(key))
    if not ShortUrl.objects.filter(key=key).update(target_url=target_url):
        raise ApiError(HTTPStatus.NOT_FOUND, f"There is no short URL {shortened(key)!r}.")
    return JsonResponse({"key": key, "target_url": target_url})


def failure(error: Exception, strategy: Strategy[Any]) -> HttpResponse:
    """Return what a strategy raised, with the status that a view would give it."""
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    if isinstance(error, ShortUrl.DoesNotExist):
        status = HTTPStatus.NOT_FOUND
    elif isinstance(error, ShortUrl.Gone):
        status = HTTPStatus.GONE
    elif isinstance(error, UNAVAILABLE) or is_outage(error):
        status = HTTPStatus.SERVICE_UNAVAILABLE
    content = {
        "exception": type(error).__name__,
        "message": str(error).strip(),
        "verdict": strategy.verdict.value,
    }
    return JsonResponse(content, status=status)


# --- The spaces ----------------------------------------------------------------------------------


@for_programs
@require_POST
def spaces(request: HttpRequest) -> HttpResponse:
    """Open a key space, {"key_length": …}, and say what the tables say of the strategies.

    With "own_visits": true it has a table of visits of its own, for the roll-up.
    """
    asked = {"own_visits": False, **body(request)}
    key_length, with_visits = field(asked, "key_length", int), field(asked, "own_visits", bool)
    try:
        space = key_spaces.open_space(key_length, with_visits=with_visits)
    except ValueError as error:
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, f"key_length: {error}.") from error
    except ProgrammingError as error:  # this role makes no tables
        raise ApiError(HTTPStatus.FORBIDDEN, f"own_visits: {str(error).splitlines()[0]}") from error
    content = {
        "space": space.name,
        "targets": key_spaces.targets(space.name),
        "operations": {name: verdicts(found) for name, found in operations.STRATEGIES.items()},
        "service": {
            name: getattr(settings, operations.setting(name)) for name in operations.STRATEGIES
        },
        "versions": versions(),
    }
    return JsonResponse(content, status=HTTPStatus.CREATED)


def verdicts(strategies: dict[str, Strategy[F]]) -> dict[str, str]:
    """Return the verdict on each strategy, by its name."""
    return {name: strategy.verdict.value for name, strategy in strategies.items()}


def versions() -> dict[str, str]:
    """Return what the service runs on, for the report of a load test."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version')")
        (postgresql,) = cursor.fetchone()
    return {
        "Python": platform.python_version(),
        "Django": django.get_version(),
        "gunicorn": metadata.version("gunicorn"),
        "PostgreSQL": postgresql.split()[0],
    }


@for_programs
@require_http_methods(["DELETE"])
def space(request: HttpRequest, name: str) -> HttpResponse:
    """Remove a space with all its links, and say how many there were."""
    return JsonResponse({"removed": key_spaces.close(key_space(name))})


@for_programs
@require_GET
def links(request: HttpRequest, name: str) -> HttpResponse:
    """List links of a space, as [key, target URL, hits, limit, visits].

    Hits and visits of a link are of the same moment. `next` is the page after this one.
    """
    after = request.GET.get("after", "0")
    if not after.isdecimal() or len(after) > 18:
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, "after: send the number from `next`.")
    space = key_space(name)
    found = key_spaces.links(space.name).filter(id__gt=int(after)).order_by("id")
    with visits_of(space):
        page = list(found.with_total_hits().annotate(visits=VISITS).values_list(*LISTED)[:PAGE])
    following = f"{request.path}?after={page[-1][0]}" if len(page) == PAGE else None
    rows = [row for _, *row in page]
    return JsonResponse({"links": rows, "next": following})
