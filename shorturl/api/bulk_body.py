"""The entries of a bulk request, from a body in JSON, JSON lines or CSV."""

import csv
import io
import json
from collections.abc import Collection, Iterator
from http import HTTPStatus
from itertools import islice
from typing import Any

from django.http import HttpRequest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shorturl.api.error_responses import ApiError, fault, wrong_input
from shorturl.api.json_body import parse
from shorturl.links.labels import SEPARATOR
from shorturl.links.validators import shortened
from shorturl.transfer.bulk import BULK_MAX

JSON, JSON_LINES, CSV = "application/json", "application/x-ndjson", "text/csv"

LINKS = {
    "type": "array",
    "items": {"$ref": "#/components/schemas/NewLink"},
    "minItems": 1,
    "maxItems": BULK_MAX,
}
EXAMPLE = {"target_url": "https://example.com/a/long/page", "key": "my-page"}
# The content types of a body, as OpenAPI describes them.
CONTENT: dict[str, Any] = {
    JSON: {
        "schema": {
            "type": "object",
            "required": ["links"],
            "properties": {"links": LINKS, "atomic": {"type": "boolean", "default": True}},
        }
    },
    JSON_LINES: {"schema": {"type": "string"}, "example": f"{json.dumps(EXAMPLE)}\n"},
    CSV: {
        "schema": {"type": "string"},
        "example": f"{','.join(EXAMPLE)}\n{','.join(EXAMPLE.values())}\n",
    },
}


class BulkBody(BaseModel):
    """The entries of a bulk create."""

    model_config = ConfigDict(extra="forbid")

    links: list[Any] = Field(min_length=1, max_length=BULK_MAX)
    atomic: bool | None = Field(None, strict=True)


def read(request: HttpRequest, columns: Collection[str]) -> BulkBody:
    """Return the entries of the body; an entry that cannot be read is an ApiError in its place.

    CSV may have the `columns`. Raises ApiError: 415 for another content type, 400 for a body that
    cannot be read at all, 422 for no entries or more than BULK_MAX.
    """
    most = BULK_MAX + 1  # one more shows that there are too many
    match request.content_type:
        case "application/json":
            content = parse(request.body)
        case "application/x-ndjson":
            lines = filter(bytes.strip, request.body.splitlines())
            content = {"links": list(map(json_entry, islice(lines, most)))}
        case "text/csv":
            content = {"links": list(islice(csv_entries(request.body, columns), most))}
        case _:
            raise ApiError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"The body must be JSON, JSON lines or CSV: send it with 'Content-Type: {JSON}', "
                f"'{JSON_LINES}' or '{CSV}'.",
            )
    try:
        return BulkBody.model_validate(content)
    except ValidationError as error:
        raise invalid(error) from error


def invalid(error: ValidationError, what: str = "body") -> ApiError:
    """Return the error for input that does not match its schema."""
    faults = [fault({**each, "loc": (what, *each["loc"])}) for each in error.errors()]
    return wrong_input(HTTPStatus.UNPROCESSABLE_ENTITY, *faults)


def json_entry(line: bytes) -> Any:
    """Return the entry of a line, or the error if the line is not JSON."""
    try:
        return parse(line)
    except ApiError as error:
        return unreadable(error.detail.replace("The body", "The line", 1))


def csv_entries(body: bytes, columns: Collection[str]) -> Iterator[Any]:
    """Yield the rows without their empty fields; raise ApiError for malformed CSV."""
    try:
        rows = csv.DictReader(io.StringIO(body.decode("utf-8-sig"), newline=""), strict=True)
        names = list(rows.fieldnames or [])
        for name in names:
            if name not in columns:
                message = f"{shortened(name)!r} is not a column: use {', '.join(columns)}."
                raise wrong_input(HTTPStatus.UNPROCESSABLE_ENTITY, ("header", "unknown", message))
            if names.count(name) > 1:
                message = f"The column {name!r} is there more than once: leave one of them out."
                raise wrong_input(HTTPStatus.UNPROCESSABLE_ENTITY, ("header", "repeated", message))
        for row in rows:
            if None in row or None in row.values():
                yield unreadable("The row has not as many fields as the first line has names.")
            else:
                entry: dict[str, Any] = {name: value for name, value in row.items() if value}
                if tags := row.get("tags"):
                    entry["tags"] = SEPARATOR.split(tags)
                yield entry
    except UnicodeDecodeError as error:
        detail = f"The body is not CSV: it is not UTF-8 at byte {error.start + 1}."
        raise ApiError(HTTPStatus.BAD_REQUEST, detail) from error
    except csv.Error as error:
        detail = f"The body is not CSV: {error} at line {rows.reader.line_num}."
        raise ApiError(HTTPStatus.BAD_REQUEST, detail) from error


def unreadable(message: str) -> ApiError:
    """Return the error for an entry that cannot be read."""
    return wrong_input(HTTPStatus.UNPROCESSABLE_ENTITY, ("entry", "malformed", message))
