"""The error responses of the API, all of one shape: see schemas.Error."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.request import RawPostDataException
from django.views.decorators.csrf import csrf_exempt
from ninja.errors import AuthenticationError, HttpError, ValidationError

from shorturl.bulk import MAX_LINKS
from shorturl.error_response import is_api
from shorturl.exceptions import Fault, ShortUrlError
from shorturl.links.keys import violates
from shorturl.links.validators import shortened
from shorturl.models import OWNER_CONSTRAINT

MAX_FAULTS = 10  # of a response; a bulk has a fault for each bad link

# They replace messages of Pydantic's that do not say what would be right.
MESSAGES = {
    "missing": "It is required.",
    "extra_forbidden": "The field is not known: leave it out.",
    "string_type": "It must be a string.",
    "model_type": "It must be a JSON object.",
}


class ApiError(HttpError):
    """An error response: a status, a sentence or the faults of the input, and headers."""

    def __init__(
        self,
        status: int,
        detail: str = "",
        *,
        faults: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        errors = [
            {"field": shortened(field), "code": code, "message": message}
            for field, code, message in faults
        ]
        sentences = [f"{error['field']}: {error['message']}" for error in errors[:MAX_FAULTS]]
        content: dict[str, Any] = {"detail": detail or " ".join(sentences)}
        if errors:
            content["errors"] = errors
        super().__init__(status, content["detail"])
        self.response = JsonResponse(content, status=status, headers=headers)


def input_error(*faults: Fault, status: int = HTTPStatus.UNPROCESSABLE_ENTITY) -> ApiError:
    return ApiError(status, faults=faults)


def unauthorized(detail: str) -> ApiError:
    return ApiError(HTTPStatus.UNAUTHORIZED, detail, headers={"WWW-Authenticate": "Bearer"})


def not_json() -> ApiError:
    return ApiError(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "The body must be JSON: send it with 'Content-Type: application/json'.",
    )


def faults_of(errors: Iterable[Mapping[str, Any]]) -> list[Fault]:
    """Return the first faults that Pydantic names, or in a bulk the first fault of each link."""
    faults: dict[tuple[object, ...], Fault] = {}
    limit = MAX_FAULTS
    for error in errors:
        source, *path = error["loc"]
        if source == "body":
            del path[:1]  # the name of ninja's parameter
        field = ".".join(map(str, path)) or "body"
        if in_bulk := len(path) > 1 and path[0] == "links":
            limit = MAX_LINKS
        message = MESSAGES.get(error["type"], f"{error['msg']}.")
        faults.setdefault(tuple(path[:2] if in_bulk else path), (field, error["type"], message))
    return list(faults.values())[:limit]


def answer_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    if isinstance(error, AuthenticationError):
        error = unauthorized("Send a token, as 'Authorization: Bearer <token>', or log in.")
    if isinstance(error.__cause__, ApiError):  # ninja wraps the errors of json_body.JsonParser
        error = error.__cause__
    assert isinstance(error, ApiError)
    return error.response


def answer_invalid_input(request: HttpRequest, error: ValidationError) -> HttpResponse:
    return input_error(*faults_of(error.errors)).response


def answer_refusal(request: HttpRequest, error: ShortUrlError) -> HttpResponse:
    detail = "" if error.faults else error.message
    return ApiError(error.status, detail, faults=error.faults, headers=error.headers).response


def answer_violation(request: HttpRequest, error: IntegrityError) -> HttpResponse:
    if not violates(error, OWNER_CONSTRAINT):
        raise error
    return unauthorized("The account was removed meanwhile, and nothing was created.").response


def answer_form(request: HttpRequest, error: RawPostDataException) -> HttpResponse:
    """Answer a form, whose body the check of the CSRF token has read."""
    return not_json().response


HANDLERS: dict[type[Exception], Callable[[HttpRequest, Any], HttpResponse]] = {
    HttpError: answer_http_error,
    ValidationError: answer_invalid_input,
    ShortUrlError: answer_refusal,
    IntegrityError: answer_violation,
    RawPostDataException: answer_form,
}


@csrf_exempt
def not_found(request: HttpRequest) -> HttpResponse:
    detail = f"There is nothing at {shortened(request.path)!r}: see /api/docs."
    return ApiError(HTTPStatus.NOT_FOUND, detail).response


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
        methods = set(response["Allow"].split(", "))
        allow = ", ".join(sorted(methods | {"HEAD"} if "GET" in methods else methods))
        detail = f"{method} is not allowed for {shortened(request.path)!r}: use {allow}."
        return ApiError(response.status_code, detail, headers={"Allow": allow}).response

    return middleware
