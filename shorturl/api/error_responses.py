"""The error responses of the API, all of one shape: see schemas.Error."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.request import RawPostDataException
from django.views.decorators.csrf import csrf_exempt
from ninja.errors import AuthenticationError, HttpError, ValidationError

from shorturl import exceptions
from shorturl.bulk import MAX_LINKS
from shorturl.links.keys import violates
from shorturl.links.validators import shortened
from shorturl.models import OWNER_CONSTRAINT
from shorturl.pages.error_response import is_api

RETRY_AFTER = 5  # seconds; each call draws new candidate keys, so the next one may succeed
MAX_ERRORS = 10  # faults of a response; a bulk has one for each bad link

# They replace messages of Pydantic's that do not say what would be right.
MESSAGES = {
    "missing": "It is required.",
    "extra_forbidden": "It is not a known field: leave it out.",
    "string_type": "It must be a string.",
    "model_type": "It must be a JSON object.",
}
# The status, the field and the code of an exception, and what to do.
REFUSALS = {
    exceptions.KeyTaken: (
        409,
        "key",
        "taken",
        " Choose another, or leave it out.",
    ),
    exceptions.TargetBanned: (422, "target_url", "banned", ""),
    exceptions.LimitTooLow: (422, "max_hits", "too_low", ""),
    exceptions.MoreThanQuota: (422, "links", "over_quota", ""),
    exceptions.InFlight: (409, "Idempotency-Key", "in_progress", " Send it again in a moment."),
    exceptions.KeyReused: (422, "Idempotency-Key", "reused", " Send this with another key."),
}
Fault = tuple[str, str, str]  # a field, a code for programs, and a message


class ApiError(HttpError):
    """An error response: a status, a sentence, the faults of the input, and headers."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        faults: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail)
        self.headers = headers
        self.content: dict[str, Any] = {"detail": detail}
        if faults:
            self.content["errors"] = [
                {"field": shortened(field), "code": code, "message": message}
                for field, code, message in faults
            ]

    def response(self) -> HttpResponse:
        return JsonResponse(self.content, status=self.status_code, headers=self.headers)


def wrong_input(*faults: Fault, status: int = HTTPStatus.UNPROCESSABLE_ENTITY) -> ApiError:
    detail = " ".join(f"{shortened(field)}: {message}" for field, _, message in faults[:MAX_ERRORS])
    return ApiError(status, detail, faults=faults)


def unauthorized(detail: str) -> ApiError:
    return ApiError(HTTPStatus.UNAUTHORIZED, detail, headers={"WWW-Authenticate": "Bearer"})


def not_json() -> ApiError:
    return ApiError(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "The body must be JSON: send it with 'Content-Type: application/json'.",
    )


def faults_of(errors: Iterable[Mapping[str, Any]]) -> list[Fault]:
    """Return the first faults that Pydantic names, or in a bulk the first fault of each link.

    The field of a link in a bulk has the link's index, from 0: "links.3.key".
    """
    faults: dict[tuple[object, ...], Fault] = {}
    limit = MAX_ERRORS
    for error in errors:
        source, *place = error["loc"]
        if source == "body":
            del place[:1]  # the name of ninja's parameter
        field = ".".join(map(str, place)) or "body"
        if in_bulk := len(place) > 1 and place[0] == "links":
            limit = MAX_LINKS
        message = MESSAGES.get(error["type"], f"{error['msg']}.")
        faults.setdefault(tuple(place[:2] if in_bulk else place), (field, error["type"], message))
    return list(faults.values())[:limit]


def known_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    # ninja wraps the errors of json_body.JsonParser.
    known = error.__cause__ if isinstance(error.__cause__, ApiError) else error
    if isinstance(known, AuthenticationError):
        known = unauthorized("Send a token, as 'Authorization: Bearer <token>', or log in.")
    assert isinstance(known, ApiError)
    return known.response()


def invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    return wrong_input(*faults_of(error.errors)).response()


def refused(request: HttpRequest, error: exceptions.ShortUrlError) -> HttpResponse:
    status, *_ = REFUSALS[type(error)]
    return wrong_input(fault_of(error), status=status).response()


def several_refused(request: HttpRequest, error: exceptions.LinksRefused) -> HttpResponse:
    faults = [fault_of(refusal, f"links.{index}.") for index, refusal in error.errors.items()]
    status = max(REFUSALS[type(refusal)][0] for refusal in error.errors.values())
    return wrong_input(*faults, status=status).response()


def fault_of(error: exceptions.ShortUrlError, link: str = "") -> Fault:
    _, field, code, advice = REFUSALS[type(error)]
    return link + field, code, f"{error}{advice}"


def quota_used_up(request: HttpRequest, error: exceptions.TooManyCreates) -> HttpResponse:
    return ApiError(HTTPStatus.TOO_MANY_REQUESTS, str(error), headers=error.headers).response()


def try_again(request: HttpRequest, error: exceptions.ShortUrlError) -> HttpResponse:
    headers = {"Retry-After": str(RETRY_AFTER)}
    detail = f"{error} Try again."
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, detail, headers=headers).response()


def constraint_violated(request: HttpRequest, error: IntegrityError) -> HttpResponse:
    if not violates(error, OWNER_CONSTRAINT):
        raise error
    return unauthorized("The account was removed meanwhile, and nothing was created.").response()


def form_sent(request: HttpRequest, error: RawPostDataException) -> HttpResponse:
    """Answer a form, whose body the check of the CSRF token has read."""
    return not_json().response()


def unknown_error(request: HttpRequest, error: Exception) -> HttpResponse:
    """Leave the error to Django, also with DEBUG: its handlers answer in JSON under /api."""
    raise error


HANDLERS: dict[type[Exception], Callable[[HttpRequest, Any], HttpResponse]] = {
    **dict.fromkeys(REFUSALS, refused),
    HttpError: known_error,
    ValidationError: invalid,
    exceptions.LinksRefused: several_refused,
    exceptions.TooManyCreates: quota_used_up,
    exceptions.KeySpaceExhausted: try_again,
    exceptions.Contended: try_again,
    IntegrityError: constraint_violated,
    RawPostDataException: form_sent,
    Exception: unknown_error,
}


@csrf_exempt
def not_found(request: HttpRequest) -> HttpResponse:
    detail = f"There is nothing at {shortened(request.path)!r}: see /api/docs."
    return ApiError(HTTPStatus.NOT_FOUND, detail).response()


def methods_in_json(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware that answers HEAD as GET under /api, and a 405 in JSON."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if not is_api(request.path_info):
            return get_response(request)
        method = request.method
        request.method = "GET" if method == "HEAD" else method
        response = get_response(request)
        request.method = method
        if response.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
            return response
        methods = {name.strip() for name in response["Allow"].split(",")}
        if "GET" in methods:
            methods.add("HEAD")
        allow = ", ".join(sorted(methods))
        detail = f"{method} is not allowed for {shortened(request.path)!r}: use {allow}."
        return ApiError(response.status_code, detail, headers={"Allow": allow}).response()

    return middleware
