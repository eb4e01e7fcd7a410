"""What the endpoints of load tests share: reading a request, and answering an error."""

from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from lab.load import key_spaces
from lab.models import KeySpace
from shorturl.api.error_responses import ApiError
from shorturl.api.json_body import JsonParser
from shorturl.exceptions import Contended, Gone, KeySpaceExhausted, RowLocked
from shorturl.links.validators import shortened, validate_target_url
from shorturl.models import ShortUrl
from shorturl.outages import is_outage
from shorturl.strategies.table import Strategy

T = TypeVar("T", str, int, bool)
View = Callable[..., HttpResponse]
KINDS = {str: "a string", int: "a whole number", bool: "true or false"}
UNAVAILABLE = (KeySpaceExhausted, Contended, RowLocked)


def endpoint(method: str, strategies: dict[str, Strategy] | None = None) -> Callable[[View], View]:
    """Make a view an endpoint that programs call with `method`, without a CSRF token.

    This is safe because these views read only JSON, which no form of another site can send.
    ApiErrors are answered as JSON. With `strategies`, the view gets the strategy that the path
    names. Any other exception then comes from the strategy, and failure() answers it.
    """

    def decorate(view: View) -> View:
        limited = require_http_methods([method])(view)

        @csrf_exempt
        @wraps(view)
        def wrapped(request: HttpRequest, strategy: str = "", **named: str) -> HttpResponse:
            chosen: list[Strategy] = []
            try:
                if strategies:
                    chosen = [strategy_named(strategy, strategies)]
                response = limited(request, *chosen, **named)
            except ApiError as error:
                response = error.response()
            except Exception as error:
                if not chosen:
                    raise
                response = failure(error, *chosen)
            response.setdefault("Cache-Control", "private, no-store")
            if request_id := request.headers.get("X-Request-Id"):
                response["X-Request-Id"] = request_id  # which pairs the answer with its request
            return response

        return wrapped

    return decorate


def failure(error: Exception, strategy: Strategy) -> HttpResponse:
    """Return what a strategy raised, with the status that the service would answer."""
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    if isinstance(error, ShortUrl.DoesNotExist):
        status = HTTPStatus.NOT_FOUND
    elif isinstance(error, Gone):
        status = HTTPStatus.GONE
    elif isinstance(error, UNAVAILABLE) or is_outage(error):
        status = HTTPStatus.SERVICE_UNAVAILABLE
    content = {
        "exception": type(error).__name__,
        "message": str(error).strip(),
        "verdict": strategy.verdict.value,
    }
    return JsonResponse(content, status=status)


def strategy_named(name: str, strategies: dict[str, Strategy]) -> Strategy:
    if name not in strategies:
        names = ", ".join(strategies)
        detail = f"There is no strategy {shortened(name)!r}; there are {names}."
        raise ApiError(HTTPStatus.NOT_FOUND, detail)
    return strategies[name]


def key_space(name: str, by: Callable[[str], KeySpace] = key_spaces.find) -> KeySpace:
    """Return the space `name`, found by the function `by`; raise a 404 if there is none."""
    try:
        return by(name)
    except KeySpace.DoesNotExist as error:
        detail = f"There is no key space {shortened(name)!r}: open one with POST /lab/spaces."
        raise ApiError(HTTPStatus.NOT_FOUND, detail) from error


def own(key: str) -> KeySpace:
    """Return the space that `key` is in; raise a 404 for any other key.

    A wrong strategy could lose hits of the service's links.
    """
    try:
        return key_spaces.space_of(key)
    except KeySpace.DoesNotExist as error:
        detail = f"{shortened(key)!r} is in no key space; the lab uses only links of key spaces."
        raise ApiError(HTTPStatus.NOT_FOUND, detail) from error


def body(request: HttpRequest) -> dict[str, Any]:
    """Return the request's JSON object; raise a 415 or a 400 for any other body."""
    content = JsonParser().parse_body(request)
    if not isinstance(content, dict):
        raise ApiError(HTTPStatus.BAD_REQUEST, "The body must be a JSON object.")
    return content


def field(content: dict[str, Any], name: str, kind: type[T]) -> T:
    """Return a field of the body; raise a 422 unless it is a `kind`."""
    value = content.get(name)
    if type(value) is not kind or "\0" in str(value):  # True is an int, too
        detail = f"{name}: it must be {KINDS[kind]}."
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
    return value


def target(content: dict[str, Any], space: KeySpace) -> str:
    """Return the target URL of the body; raise a 422 unless it belongs to the space."""
    target_url = field(content, "target_url", str)
    beginning = key_spaces.targets(space.name)
    if not target_url.startswith(beginning) or len(target_url) > 100:
        detail = f"target_url: start it with {beginning}, and use at most 100 characters."
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
    try:
        validate_target_url(target_url)
    except ValidationError as error:
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, error.messages[0]) from error
    return target_url
