"""Reads the path and body of a call of the lab's endpoints; raises ApiError for what is wrong."""

from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from lab.load import key_spaces
from lab.models import KeySpace
from shorturl.api.error_responses import ApiError
from shorturl.api.json_body import JsonParser
from shorturl.links.validators import shortened, validate_target_url
from shorturl.strategies import F, Strategy

T = TypeVar("T", str, int, bool)
KINDS = {str: "a string", int: "a whole number", bool: "true or false"}


def for_programs(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Wrap a view so that its ApiErrors are answered as JSON, and no CSRF token is needed.

    That is safe because these views read only JSON, which no form of another site can send.
    """

    @csrf_exempt
    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            response = view(request, *args, **kwargs)
        except ApiError as error:
            response = error.response()
        response.setdefault("Cache-Control", "private, no-store")
        if request_id := request.headers.get("X-Request-Id"):
            response["X-Request-Id"] = request_id  # so that the client knows the answer for its own
        return response

    return wrapped


def strategy_named(name: str, strategies: dict[str, Strategy[F]]) -> Strategy[F]:
    """Return the strategy `name`; raise a 404 that names those there are."""
    if name not in strategies:
        raise ApiError(
            HTTPStatus.NOT_FOUND,
            f"There is no strategy {shortened(name)!r}; there are {', '.join(strategies)}.",
        )
    return strategies[name]


def key_space(name: str, by: Callable[[str], KeySpace] = key_spaces.find) -> KeySpace:
    """Return the space `name`, found by that function; raise a 404 where there is none."""
    try:
        return by(name)
    except KeySpace.DoesNotExist as error:
        detail = f"There is no key space {shortened(name)!r}: open one with POST /lab/spaces."
        raise ApiError(HTTPStatus.NOT_FOUND, detail) from error


def own(key: str) -> KeySpace:
    """Return the space that `key` is in; raise a 404 for a key of the service's own links."""
    try:
        return key_spaces.space_of(key)
    except KeySpace.DoesNotExist as error:
        detail = f"{shortened(key)!r} is in no key space: the lab works on its own links only."
        raise ApiError(HTTPStatus.NOT_FOUND, detail) from error


def check_target(target_url: str, space: KeySpace) -> None:
    """Raise a 422 unless `target_url` is one of the space's."""
    beginning = key_spaces.targets(space.name)
    if not target_url.startswith(beginning) or len(target_url) > 100:
        detail = f"target_url: start it with {beginning}, and use at most 100 characters."
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
    try:
        validate_target_url(target_url)
    except ValidationError as error:
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, error.messages[0]) from error


def body(request: HttpRequest) -> dict[str, Any]:
    """Return the request's JSON object; raise a 415 or a 400 for any other body."""
    content = JsonParser().parse_body(request)
    if not isinstance(content, dict):
        raise ApiError(HTTPStatus.BAD_REQUEST, "The body must be a JSON object.")
    return content


def field(content: dict[str, Any], name: str, kind: type[T]) -> T:
    """Return a field of the body; raise a 422 unless it is there and a `kind`."""
    value = content.get(name)
    if type(value) is not kind or "\0" in str(value):  # True is an int, too
        detail = f"{name}: it must be {KINDS[kind]}."
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, detail)
    return value
