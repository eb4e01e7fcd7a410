"""The error responses of the API, all of one shape: see schemas.Error."""

import logging
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from http import HTTPStatus
from typing import Any

from django.core.exceptions import BadRequest, SuspiciousOperation
from django.core.signals import got_request_exception
from django.db import IntegrityError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from django.http.request import RawPostDataException
from django.http.response import HttpResponseBase
from django.utils.log import log_response
from ninja.errors import AuthenticationError, HttpError, ValidationError

from shorturl import exceptions
from shorturl.links.keys import violates
from shorturl.links.validators import shortened
from shorturl.models import OWNER_CONSTRAINT
from shorturl.outages import is_outage

# Seconds. Each call draws new candidate keys, so the next one may succeed.
RETRY_AFTER = 5
# A response lists at most this many faults.
MAX_ERRORS = 10

# They replace messages of Pydantic's that do not say what would be right.
MESSAGES = {
    "missing": "It is required.",
    "extra_forbidden": "It is not a known field: leave it out.",
    "string_type": "It must be a string.",
    "model_type": "It must be a JSON object.",
}

logger = logging.getLogger(__name__)


class ApiError(Exception):
    """An error response: an HTTP status, and a sentence with the reason."""

    def __init__(
        self,
        status: HTTPStatus,
        detail: str,
        *,
        errors: list[dict[str, str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.errors = status, detail, errors
        self.headers = dict(headers or {})

    @property
    def content(self) -> dict[str, Any]:
        return {"detail": self.detail, **({"errors": self.errors} if self.errors else {})}

    def response(self) -> HttpResponse:
        return JsonResponse(self.content, status=self.status, headers=self.headers)


def wrong_input(
    *faults: tuple[str, str, str], status: HTTPStatus = HTTPStatus.UNPROCESSABLE_ENTITY
) -> ApiError:
    """Return the error for `faults`, each a field, a code and a message."""
    errors = [
        {"field": shortened(field), "code": code, "message": message}
        for field, code, message in faults[:MAX_ERRORS]
    ]
    detail = " ".join(f"{error['field']}: {error['message']}" for error in errors)
    return ApiError(status, detail, errors=errors)


def answer(request: HttpRequest, error: Exception | type[Exception]) -> HttpResponse:
    if is_outage(error):
        raise error  # the same 503 as for every page: see project/serving/unavailable.py
    if known := describe(error):
        return known.response()
    # As Django does for a page; but also with DEBUG the answer is JSON.
    got_request_exception.send(sender=None, request=request)
    detail = "An internal error occurred; it has been logged."
    response = ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, detail).response()
    log_response(
        "%s %s failed",
        request.method,
        request.path,
        response=response,
        request=request,
        logger=logger,
        exception=sys.exc_info()[1],
    )
    return response


def describe(error: object) -> ApiError | None:
    """Return the response to `error`; None for an internal error."""
    match error:
        case ApiError():
            return error
        case HttpError(__cause__=ApiError() as cause):
            return cause  # raised by json_body.JsonParser and wrapped by ninja
        case AuthenticationError():
            return unauthorized("Send a token, as 'Authorization: Bearer <token>', or log in.")
        case ValidationError():
            return wrong_input(*map(fault, error.errors))
        case exceptions.KeyTaken():
            message = f"{error} Choose another, or leave it out for a random one."
            return wrong_input(("key", "taken", message), status=HTTPStatus.CONFLICT)
        case exceptions.LeftOut():
            return ApiError(HTTPStatus.FAILED_DEPENDENCY, str(error))
        case exceptions.InFlight():
            message = f"{error} Send it again in a moment."
            in_progress = ("Idempotency-Key", "in_progress", message)
            return wrong_input(in_progress, status=HTTPStatus.CONFLICT)
        case exceptions.KeyReused():
            message = f"{error} Send this request with another key."
            return wrong_input(("Idempotency-Key", "reused", message))
        case exceptions.LimitTooLow():
            return wrong_input(("max_hits", "too_low", str(error)))
        case exceptions.MoreThanQuota():
            return wrong_input(("links", "over_quota", str(error)))
        case IntegrityError() if violates(error, OWNER_CONSTRAINT):
            return unauthorized("The account was removed meanwhile, and nothing was created.")
        case exceptions.TooManyCreates():
            return ApiError(HTTPStatus.TOO_MANY_REQUESTS, str(error), headers=error.headers)
        case exceptions.KeySpaceExhausted() | exceptions.Contended():
            headers = {"Retry-After": str(RETRY_AFTER)}
            return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, f"{error} Try again.", headers=headers)
        case RawPostDataException():  # a form, whose body the CSRF check has read
            return not_json()
        case SuspiciousOperation() | BadRequest() | MultiPartParserError() | UnreadablePostError():
            return ApiError(HTTPStatus.BAD_REQUEST, "The request is malformed.")
    return None


def fault(error: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(error["loc"][-1]), error["type"], MESSAGES.get(error["type"], f"{error['msg']}.")


def unauthorized(detail: str) -> ApiError:
    return ApiError(HTTPStatus.UNAUTHORIZED, detail, headers={"WWW-Authenticate": "Bearer"})


def not_json() -> ApiError:
    return ApiError(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "The body must be JSON: send it with 'Content-Type: application/json'.",
    )


def always_json(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Wrap a view under /api/: 404s and 405s of Django and ninja are JSON, and HEAD is as GET."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        method = request.method
        request.method = "GET" if method == "HEAD" else method
        try:
            response = view(request, *args, **kwargs)
        except Http404:
            detail = f"There is nothing at {shortened(request.path)!r}: see /api/docs."
            response = ApiError(HTTPStatus.NOT_FOUND, detail).response()
        finally:
            request.method = method
        if response.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            methods = {method.strip() for method in response["Allow"].split(",")}
            allow = ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))
            detail = f"{method} is not allowed for {shortened(request.path)!r}: use {allow}."
            response = ApiError(
                HTTPStatus.METHOD_NOT_ALLOWED, detail, headers={"Allow": allow}
            ).response()
        response.setdefault("Cache-Control", "no-store")
        return response

    # access.py checks the CSRF token of a call by cookie. A call by token needs none.
    wrapped.csrf_exempt = True  # type: ignore[attr-defined]
    return wrapped
