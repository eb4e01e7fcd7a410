"""The endpoints of load tests: run an operation by any strategy in a key space, over HTTP.

    POST   /lab/load/SPACE/OPERATION/STRATEGY    run it once; the body is a JSON object
    GET    /lab/load/SPACE                       the links of the key space, and all strategies
    DELETE /lab/load/SPACE                       remove the links

A request runs one function of a strategy once, without a delay and without a further statement.
The service's own /KEY also works with the keys of a key space.
"""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Any

from django.core.exceptions import BadRequest
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST

from lab.load.key_spaces import KeySpace
from shorturl.exceptions import Contended, InFlight, KeySpaceExhausted, QuotaExceeded
from shorturl.models import ShortUrl
from shorturl.strategies.creating import on_conflict
from shorturl.strategies.exhibits.totals import TOTAL_HITS, VISITS
from shorturl.strategies.table import STRATEGIES
from shorturl.visits.classification import classify_visit

# No period of this length ends during a load run: they begin in 1970, 1997, 2024 and 2052.
QUOTA_PERIOD = timedelta(days=10_000)
MAX_NUMBER = 10_000_000
STATUSES: dict[type[Exception], HTTPStatus] = {
    BadRequest: HTTPStatus.BAD_REQUEST,
    ShortUrl.DoesNotExist: HTTPStatus.GONE,
    InFlight: HTTPStatus.CONFLICT,
    QuotaExceeded: HTTPStatus.TOO_MANY_REQUESTS,
    # A strategy that gives up, or has no database. The client may try again.
    Contended: HTTPStatus.SERVICE_UNAVAILABLE,
    KeySpaceExhausted: HTTPStatus.SERVICE_UNAVAILABLE,
    OperationalError: HTTPStatus.SERVICE_UNAVAILABLE,
    InterfaceError: HTTPStatus.SERVICE_UNAVAILABLE,
    Exception: HTTPStatus.INTERNAL_SERVER_ERROR,  # every other one
}
Function = Callable[..., Any]  # of a strategy


@csrf_exempt  # a form of another site can send JSON, but not the type that Content demands
@require_POST
def run_strategy(request: HttpRequest, space: str, operation: str, strategy: str) -> HttpResponse:
    """Run an operation by a strategy; return its response, or the name and text of its error."""
    try:
        strategies = STRATEGIES[operation] if operation in OPERATIONS else {}
        if strategy not in strategies:
            raise BadRequest(f"{operation} has no strategy {strategy}: {', '.join(strategies)}")
        content = Content(request, KeySpace(space))
        return OPERATIONS[operation](strategies[strategy].function, content)
    except Exception as error:
        status = next(STATUSES[kind] for kind in STATUSES if isinstance(error, kind))
        exception = {"exception": type(error).__name__, "message": str(error).strip()}
        return JsonResponse(exception, status=status)


@csrf_exempt
@require_http_methods(["GET", "DELETE"])
def list_or_remove_links(request: HttpRequest, space: str) -> HttpResponse:
    """Remove the links of a key space, or list them with the verdicts of all strategies.

    One statement reads hits and visits, so that they are of one moment.
    """
    if request.method == "DELETE":
        return JsonResponse({"removed": KeySpace(space).remove_rows()})
    links = KeySpace(space).links.annotate(total_hits=TOTAL_HITS, visits=VISITS)
    rows = links.values_list("key", "target_url", "total_hits", "max_hits", "visits")
    verdicts = {}
    for operation in OPERATIONS:
        strategies = STRATEGIES[operation].items()
        verdicts[operation] = {name: strategy.verdict.value for name, strategy in strategies}
    return JsonResponse({"links": list(rows), "strategies": verdicts})


class Content:
    """The JSON object of a request; raises BadRequest for a value that its key space forbids."""

    def __init__(self, request: HttpRequest, space: KeySpace) -> None:
        self.request = request
        self.space = space
        try:
            self.values = dict(json.loads(request.body))
        except (ValueError, TypeError) as error:
            raise BadRequest("Send a JSON object.") from error
        if request.content_type != "application/json":
            raise BadRequest("Send Content-Type: application/json.")

    def read_number(self, name: str) -> int:
        """Return the whole number of this name in the object."""
        value = self.values.get(name)
        if type(value) is not int or not 0 <= value < MAX_NUMBER:
            raise BadRequest(f"{name}: send a whole number below {MAX_NUMBER:,}.")
        return value

    @property
    def key(self) -> str:
        """The key in the object. All keys of a key space begin with its name."""
        key = self.values.get("key")
        if not isinstance(key, str) or not key.startswith(f"{self.space.name}-"):
            raise BadRequest(f"key: begin it with {self.space.name}-")
        return key

    @property
    def target_url(self) -> str:
        """The target URL in the object. All those of a key space begin with its host."""
        target_url = self.values.get("target_url")
        if not isinstance(target_url, str) or not target_url.startswith(self.space.target_prefix):
            raise BadRequest(f"target_url: begin it with {self.space.target_prefix}")
        return target_url

    def create_link(self) -> ShortUrl:
        return on_conflict.create(self.target_url, keys=self.space.draw_keys())


# --- The operations: each calls a strategy's function with the content of the request -------------


def create(function: Function, content: Content) -> HttpResponse:
    """Create a link to {"target_url": …}, perhaps with "max_hits".

    Its key is "key", or a short random key that begins with the number of the "round".
    """
    limit = {"max_hits": content.read_number("max_hits")} if "max_hits" in content.values else {}
    if "key" in content.values:
        candidates = iter([content.key])
    else:
        candidates = content.space.draw_keys(f"{content.read_number('round')}-", length=1)
    return return_created(function(content.target_url, keys=candidates, **limit).key)


def resolve(function: Function, content: Content) -> HttpResponse:
    """Redirect to the target of {"key": …}, and count the hit."""
    return HttpResponseRedirect(function(content.key).target_url)


def record(function: Function, content: Content) -> HttpResponse:
    """Redirect to the target of {"key": …}, count the hit and record the visit."""
    visit = classify_visit(content.request.META)
    return HttpResponseRedirect(function(content.key, visit=visit).target_url)


def reuse(function: Function, content: Content) -> HttpResponse:
    """Return the link to {"target_url": …}, or create one."""
    short_url, _ = function(content.target_url, owner_id=None, create=content.create_link)
    return return_created(short_url.key)


def answer_once(function: Function, content: Content) -> HttpResponse:
    """Create a link to {"target_url": …}, which is also the Idempotency-Key."""

    def work() -> dict[str, Any]:
        return {"status": HTTPStatus.CREATED, "body": content.create_link().key}

    key = content.target_url
    stored_answer = function(content.space.name, key, fingerprint="", work=work)
    return return_created(stored_answer.body)


def spend(function: Function, content: Content) -> HttpResponse:
    """Create a link to {"target_url": …} for the number "spender", whose quota is "limit"."""
    spender = f"{content.space.name} {content.read_number('spender')}"
    limit = content.read_number("limit")
    link = function(spender, content.create_link, limit=limit, period=QUOTA_PERIOD)
    return return_created(link.key)


def return_created(key: str) -> HttpResponse:
    """Return the response of an operation that has created a link, or returns one."""
    return JsonResponse({"key": key}, status=HTTPStatus.CREATED)


OPERATIONS: Mapping[str, Callable[[Function, Content], HttpResponse]] = {
    "creating": create,
    "resolving": resolve,
    "recording_visits": record,
    "reusing": reuse,
    "idempotency": answer_once,
    "spending": spend,
}
