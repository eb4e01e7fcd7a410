"""The JSON body of a request; JSON that parsers read differently is refused."""

import json
from codecs import BOM_UTF8
from http import HTTPStatus
from statistics import mode
from typing import Any, NoReturn

from django.http import HttpRequest
from ninja.parser import Parser

from shorturl.api.error_responses import ApiError, not_json
from shorturl.links.validators import shortened


class JsonParser(Parser):
    def parse_body(self, request: HttpRequest) -> Any:
        if request.content_type != "application/json":  # another site's form can send other types
            raise not_json()
        try:
            # json.loads() of bytes would also accept UTF-16. Some editors write a BOM.
            text = request.body.removeprefix(BOM_UTF8).decode()
            return json.loads(
                text, parse_constant=refuse_constant, object_pairs_hook=refuse_repeated_fields
            )
        except (ValueError, RecursionError) as error:
            detail = f"The body is not JSON: {error}."
            raise ApiError(HTTPStatus.BAD_REQUEST, detail) from error


def refuse_repeated_fields(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; raise ApiError if it has a field more than once."""
    distinct = dict(fields)
    if len(distinct) < len(fields):
        repeated = mode(name for name, _value in fields)  # the most frequent name
        detail = f"The body has the field {shortened(repeated)!r} more than once."
        raise ApiError(HTTPStatus.BAD_REQUEST, detail)
    return distinct


def refuse_constant(constant: str) -> NoReturn:
    """Refuse NaN and Infinity, which json.loads() would accept."""
    raise ValueError(f"{constant} is not a number in JSON")
