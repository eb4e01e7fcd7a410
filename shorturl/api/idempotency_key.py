"""The Idempotency-Key header: a POST that is sent again with the same key is carried out once.

https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
"""

import hashlib
import re
from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse

from shorturl import operations
from shorturl.api import access, error_responses
from shorturl.api.error_responses import ApiError
from shorturl.models import IDEMPOTENCY_KEY_MAX_LENGTH, IdempotencyRecord

HEADER = "Idempotency-Key"
# A string in quotation marks, as in the draft, or without them, as many clients send it.
KEY = re.compile(r'"(?P<quoted>[ !#-\[\]-~]+)"|(?P<bare>[!#-\[\]-~]+)')

PARAMETER = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "A random text for this request, for example a UUID. When no answer arrives, "
    "send the same request with the same key: it is carried out once, and gets the same answer for "
    "24 hours. Another request with that key is a 422. While the first request is in progress, the "
    "answer is 409, code `in_progress`. After an error nothing was done, and the request is "
    "carried out when it is sent again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": IDEMPOTENCY_KEY_MAX_LENGTH},
    "example": "8e03978e-40d5-43e8-bc93-6894a57f9324",
}


class NotKept(Exception):
    """Rolls the work back, and carries a response that is not stored."""

    def __init__(self, response: HttpResponse) -> None:
        super().__init__(response.status_code)
        self.response = response


def idempotent(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        header = request.headers.get(HEADER)
        if request.method != "POST" or header is None:
            return view(request, *args, **kwargs)
        made: list[HttpResponse] = []

        def work() -> dict[str, Any]:
            response = view(request, *args, **kwargs)
            if response.status_code >= 400:  # nothing was created, and nothing spent
                raise NotKept(response)
            made.append(response)
            return {
                "status": response.status_code,
                "body": response.content.decode(),
                "location": response.get("Location", ""),
            }

        try:
            key = key_in(header)
            kept = operations.answer(access.sender(request), key, fingerprint(request), work=work)
        except NotKept as passing:
            return passing.response
        except Http404:
            raise
        except Exception as error:  # ninja does the same for exceptions of a view
            return error_responses.answer(request, error)
        return made[0] if made else replayed(kept)

    return wrapped


def key_in(header: str) -> str:
    match = KEY.fullmatch(header)
    key = (match["quoted"] or match["bare"]) if match else ""
    if not 1 <= len(key) <= IDEMPOTENCY_KEY_MAX_LENGTH:
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            f"The {HEADER} is malformed: send 1 to {IDEMPOTENCY_KEY_MAX_LENGTH} printable ASCII "
            'characters, without " and \\ in them, for example a UUID.',
        )
    return key


def fingerprint(request: HttpRequest) -> str:
    asked = f"{request.get_full_path()}\n{request.headers.get('Content-Type')}\n".encode()
    return hashlib.sha256(asked + request.body).hexdigest()


def replayed(kept: IdempotencyRecord) -> HttpResponse:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    if kept.location:
        headers["Location"] = kept.location
    return HttpResponse(kept.body, status=kept.status, headers=headers)
