"""The error responses of the API, all of one shape: see schemas.Error."""

from collections.abc import Callable, Mapping, Sequence
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
    """An error response: it has a status, a sentence or the faults of the input, and headers."""

    def __init__(
        self,
        status: int,
        detail: str = "",
        *,
        faults: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        faults = [fault._replace(field=shortened(fault.field)) for fault in faults]
        sentences = [f"{fault.field}: {fault.message}" for fault in faults[:MAX_FAULTS]]
        content: dict[str, Any] = {"detail": detail or " ".join(sentences)}
        if faults:
            content["errors"] = [fault._asdict() for fault in faults]
        super().__init__(status, content["detail"])
        self.response = JsonResponse(content, status=status, headers=headers)


def input_error(field: str, code: str, message: str) -> ApiError:
    return ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, faults=[Fault(field, code, message)])


def unauthorized(detail: str) -> ApiError:
    return ApiError(HTTPStatus.UNAUTHORIZED, detail, headers={"WWW-Authenticate": "Bearer"})


def not_json() -> ApiError:
    return ApiError(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "The body must be JSON: send it with 'Content-Type: application/json'.",
    )


def answer_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    """Answer an ApiError, or what ninja raises if nobody is admitted."""
    if isinstance(error, AuthenticationError):
        return unauthorized("Send a token, as 'Authorization: Bearer <token>', or log in.").response
    # ninja wraps the errors of json_body.JsonParser.
    api_error = error if isinstance(error, ApiError) else error.__cause__
    assert isinstance(api_error, ApiError)
    return api_error.response


def answer_invalid_input(request: HttpRequest, error: ValidationError) -> HttpResponse:
    """Answer the first fault of each field, or in a bulk of each link."""
    faults: dict[str, Fault] = {}  # by the field, such as "key", or the link, such as "links.3"
    limit = MAX_FAULTS
    for details in error.errors:
        source, *path = map(str, details["loc"])
        if source == "body":
            path = path[1:]  # without the name of ninja's parameter
        message = MESSAGES.get(details["type"], f"{details['msg']}.")
        fault = Fault(".".join(path) or "body", details["type"], message)
        match path:
            case ["links", index, *_]:
                limit = MAX_LINKS
                faults.setdefault(f"links.{index}", fault)
            case _:
                faults.setdefault(fault.field, fault)
    return ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, faults=list(faults.values())[:limit]).response


def answer_refusal(request: HttpRequest, error: ShortUrlError) -> HttpResponse:
    detail = "" if error.faults else error.message
    return ApiError(error.status, detail, faults=error.faults, headers=error.headers).response


def answer_removed_account(request: HttpRequest, error: IntegrityError) -> HttpResponse:
    if not violates(error, OWNER_CONSTRAINT):
        raise error
    return unauthorized("The account was removed meanwhile, and nothing was created.").response


def refuse_form(request: HttpRequest, error: RawPostDataException) -> HttpResponse:
    """Refuse a form: Django's check for CSRF has read the body, and ninja cannot read it again."""
    return not_json().response


HANDLERS: dict[type[Exception], Callable[[HttpRequest, Any], HttpResponse]] = {
    HttpError: answer_http_error,
    ValidationError: answer_invalid_input,
    ShortUrlError: answer_refusal,
    IntegrityError: answer_removed_account,
    RawPostDataException: refuse_form,
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
