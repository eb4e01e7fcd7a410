"""The JSON body of a request; JSON that parsers read differently is refused."""

import json
from codecs import BOM_UTF8
from collections import Counter
from http import HTTPStatus
from typing import Any, NoReturn

from django.http import HttpRequest
from ninja.parser import Parser

from shorturl.api.error_responses import ApiError, not_json
from shorturl.links.validators import shortened


class JsonParser(Parser):
    def parse_body(self, request: HttpRequest) -> Any:
        if request.content_type != "application/json":  # a form of another site could send it
            raise not_json()
        return parse(request.body)


def parse(body: bytes) -> Any:
    try:
        # json.loads() of bytes would also accept UTF-16 and UTF-32. Some editors write a BOM.
        text = body.removeprefix(BOM_UTF8).decode()
        return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except UnicodeDecodeError as error:
        raise malformed(f"it is not UTF-8 at byte {error.start + 1}") from error
    except json.JSONDecodeError as error:
        raise malformed(f"{error.msg.removesuffix(' at')} at character {error.pos + 1}") from error
    except RecursionError as error:
        raise malformed("it is nested too deeply") from error
    except ValueError as error:  # NaN, or a number of thousands of digits
        raise malformed("it holds a number that is too long or not JSON") from error


def unique(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    distinct = dict(fields)
    if len(distinct) < len(fields):
        ((name, _),) = Counter(name for name, _ in fields).most_common(1)
        detail = f"The body has the field {shortened(name)!r} more than once."
        raise ApiError(HTTPStatus.BAD_REQUEST, detail)
    return distinct


def refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def malformed(reason: str) -> ApiError:
    return ApiError(HTTPStatus.BAD_REQUEST, f"The body is not JSON: {reason}.")
