"""The Idempotency-Key header: a create that is sent again with the same key is carried out once.

https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
"""

import hashlib
import re
from collections.abc import Callable
from functools import partial, wraps
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse

from shorturl import operations
from shorturl.api import access
from shorturl.api.app import api
from shorturl.api.error_responses import ApiError
from shorturl.models import IDEMPOTENCY_KEY_MAX_LENGTH

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
View = Callable[..., HttpResponse]


class NotStored(Exception):
    """Rolls the work back; its error response is sent, and not stored."""

    def __init__(self, response: HttpResponse) -> None:
        super().__init__(response.status_code)
        self.response = response


def idempotent(view: View) -> View:
    """Store the answer of a create, and answer a repeated request with it.

    As a `decorate_view` of ninja's it runs before ninja validates the body: a repeated request is
    answered although its expiry has passed meanwhile.
    """

    @wraps(view)
    def wrapped(request: HttpRequest, **parameters: Any) -> HttpResponse:
        header = request.headers.get(HEADER)
        if header is None:
            return view(request, **parameters)
        try:
            key = parse_key(header)
            sender = access.get_sender(request)
            work = partial(answer_to_store, view, request, **parameters)
            record = operations.answer(sender, key, hash_request(request), work=work)
        except NotStored as error:
            return error.response
        except Exception as error:
            return api.on_exception(request, error)
        headers = {"Location": record.location} if record.location else {}
        content_type = "application/json; charset=utf-8"
        return HttpResponse(record.body, content_type, record.status, headers=headers)

    return wrapped


def answer_to_store(view: View, request: HttpRequest, **parameters: Any) -> dict[str, Any]:
    """Return the fields of the view's answer; raise NotStored for an error."""
    response = view(request, **parameters)
    if response.status_code >= HTTPStatus.BAD_REQUEST:
        raise NotStored(response)
    return {
        "status": response.status_code,
        "body": response.content.decode(),
        "location": response.get("Location", ""),
    }


def parse_key(header: str) -> str:
    match = KEY.fullmatch(header)
    key = (match["quoted"] or match["bare"]) if match else ""
    if not 1 <= len(key) <= IDEMPOTENCY_KEY_MAX_LENGTH:
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            f"The {HEADER} is malformed: send 1 to {IDEMPOTENCY_KEY_MAX_LENGTH} printable ASCII "
            'characters, without " and \\ in them, for example a UUID.',
        )
    return key


def hash_request(request: HttpRequest) -> str:
    line = f"{request.get_full_path()}\n{request.headers.get('Content-Type')}\n".encode()
    return hashlib.sha256(line + request.body).hexdigest()
