"""POST /api/links/bulk, which creates many short URLs from a body in JSON, JSON lines or CSV."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from itertools import islice
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Status
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shorturl import operations
from shorturl.api import access
from shorturl.api.error_responses import RETRY_AFTER, ApiError, describe, fault, wrong_input
from shorturl.api.json_body import parse
from shorturl.api.links import OPTIONAL, RATE_LIMIT, UNREADABLE
from shorturl.api.schemas import Error, Link, NewLink
from shorturl.bulk import BULK_MAX, Wanted
from shorturl.exceptions import LeftOut
from shorturl.limits import owners, quotas
from shorturl.links.labels import SEPARATOR
from shorturl.links.validators import shortened
from shorturl.models import ShortUrl

router = Router(tags=["links"])

JSON, JSON_LINES, CSV = "application/json", "application/x-ndjson", "text/csv"
COLUMNS = [name for name in NewLink.model_fields if name != "reuse"]
FAULTLESS = frozenset({201, 424})  # the statuses of valid entries

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
    model_config = ConfigDict(extra="forbid")

    links: list[Any] = Field(min_length=1, max_length=BULK_MAX)
    atomic: bool | None = Field(None, strict=True)


class BulkQuery(BaseModel):
    """How to create them."""

    atomic: bool = Field(
        True,
        description="true: create all entries or none; false: create every valid entry whose "
        "key is free. A JSON body may have this field, too.",
    )


class BulkItem(BaseModel):
    """The outcome of one entry."""

    number: int = Field(description="Its position among the entries, from 1.")
    status: int = Field(
        description="201 created, 409 the key is taken, 422 invalid, 424 left out because another "
        "entry cannot be created, 503 no random key was free.",
    )
    link: Link | None = None
    error: Error | None = None


class BulkResult(BaseModel):
    """The outcomes of the entries, in their order."""

    items: list[BulkItem]


class BulkError(Error):
    """Why a call cannot be answered, or which entries are the reason that nothing was created."""

    items: list[BulkItem] = Field([], description="Left out if the body could not be read.")


@router.post(
    "/links/bulk",
    auth=[access.Token("create"), access.Login(), access.anyone_where_public],
    response={
        frozenset({201, 207}): BulkResult,
        frozenset({409, 422, 503}): BulkError,
        UNREADABLE - {422} | {401, 403, 429}: Error,
    },
    exclude_unset=True,
    operation_id="create_links",
    summary="Create many short URLs",
    openapi_extra={
        **OPTIONAL,
        "requestBody": {"required": True, "content": CONTENT},
        "responses": {429: {"headers": RATE_LIMIT}},
    },
)
def create_links(
    request: HttpRequest, response: HttpResponse, query: Query[BulkQuery]
) -> Status[Any]:
    """Create up to 1,000 short URLs, all or nothing or entry by entry.

    An entry has the fields of *Create a short URL*. In the answer each entry has its own status:
    201, 409 or 422. The answer is 201 when all were created, and 207 when only some were. Nothing
    is created if every entry fails, or, with `atomic`, if one does. Then the answer has the status
    of the first entry that failed, and the valid entries have 424.

    Of several entries with the same key, the first one gets it. The others have 409, code
    `duplicate`.
    """
    body = read(request)
    atomic = query.atomic if body.atomic is None else body.atomic
    checked = list(check(body.links, request))
    wanted = [
        Wanted(each.target_url, each.key, each.model_dump(exclude={"target_url", "key", "reuse"}))
        for each in checked
        if isinstance(each, NewLink)
    ]
    outcomes: Sequence[Any] = [LeftOut()] * len(wanted)
    if len(wanted) == len(checked) or not atomic:
        who = access.caller(request)
        spender = quotas.spender_of(who, request)

        def create() -> Sequence[Any]:
            owner_id = owners.owner_id(who)
            outcomes = operations.create_many(wanted, all_or_nothing=atomic, owner_id=owner_id)
            quotas.give_back(spender, sum(not isinstance(each, ShortUrl) for each in outcomes))
            return outcomes

        outcomes = quotas.spend(spender, create, links=len(wanted))
    created = iter(outcomes)
    items = [
        item(number, next(created) if isinstance(each, NewLink) else each, request)
        for number, each in enumerate(checked, 1)
    ]
    at_fault = [each for each in items if each["status"] not in FAULTLESS]
    if not at_fault:
        return Status(201, {"items": items})
    if not atomic and len(at_fault) < len(items):
        return Status(207, {"items": items})
    first = at_fault[0]
    if first["status"] == HTTPStatus.SERVICE_UNAVAILABLE:
        response["Retry-After"] = str(RETRY_AFTER)
    detail = (
        f"Nothing was created, because of {len(at_fault):,} of {len(items):,} entries. "
        f"The first is number {first['number']}: {first['error']['detail']}"
    )
    return Status(first["status"], {"detail": detail, "items": items})


def read(request: HttpRequest) -> BulkBody:
    """Return the entries of the body; an entry that cannot be read is an ApiError in its place.

    Raises ApiError: 415 for another content type, 400 for a body that cannot be read at all, 422
    for no entries or more than BULK_MAX.
    """
    most = BULK_MAX + 1  # one more shows that there are too many
    match request.content_type:
        case "application/json":
            content = parse(request.body)
        case "application/x-ndjson":
            lines = filter(bytes.strip, request.body.splitlines())
            content = {"links": list(map(json_entry, islice(lines, most)))}
        case "text/csv":
            content = {"links": list(islice(csv_entries(request.body), most))}
        case _:
            raise ApiError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"The body must be JSON, JSON lines or CSV: send it with 'Content-Type: {JSON}', "
                f"'{JSON_LINES}' or '{CSV}'.",
            )
    try:
        return BulkBody.model_validate(content)
    except ValidationError as error:
        raise invalid(error, "body") from error


def json_entry(line: bytes) -> Any:
    try:
        return parse(line)
    except ApiError as error:
        return unreadable(error.detail.replace("The body", "The line", 1))


def csv_entries(body: bytes) -> Iterator[Any]:
    """Yield the rows without their empty fields; raise ApiError for malformed CSV."""
    try:
        rows = csv.DictReader(io.StringIO(body.decode("utf-8-sig"), newline=""), strict=True)
        names = list(rows.fieldnames or [])
        for name in names:
            if name not in COLUMNS:
                message = f"{shortened(name)!r} is not a column: use {', '.join(COLUMNS)}."
                raise wrong_input(("header", "unknown", message))
            if names.count(name) > 1:
                message = f"The column {name!r} occurs more than once: leave one of them out."
                raise wrong_input(("header", "repeated", message))
        for row in rows:
            if None in row or None in row.values():
                yield unreadable("The row has more or fewer fields than the first line has names.")
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
    return wrong_input(("entry", "malformed", message))


def invalid(error: ValidationError, what: str) -> ApiError:
    faults = [fault({**each, "loc": (what, *each["loc"])}) for each in error.errors()]
    return wrong_input(*faults)


def check(entries: list[Any], request: HttpRequest) -> Iterator[NewLink | ApiError]:
    """Yield for each entry its NewLink, or its error."""
    numbers: dict[str, int] = {}  # the number of the first entry with a key
    for number, entry in enumerate(entries, 1):
        if isinstance(entry, ApiError):
            yield entry
            continue
        try:
            link = NewLink.model_validate(entry, context={"request": request})
        except ValidationError as error:
            yield invalid(error, "entry")
            continue
        if link.reuse:
            message = "It is for single short URLs: leave it out."
            yield wrong_input(("reuse", "not_in_bulk", message))
        elif not link.key or (first := numbers.setdefault(link.key, number)) == number:
            yield link
        else:
            message = f"Entry {first} has the key {link.key!r}, too: choose another for this one."
            yield wrong_input(("key", "duplicate", message), status=HTTPStatus.CONFLICT)


def item(number: int, outcome: object, request: HttpRequest) -> dict[str, Any]:
    if isinstance(outcome, ShortUrl):
        return {"number": number, "status": 201, "link": Link.of(outcome, request)}
    error = describe(outcome)
    assert error
    return {"number": number, "status": error.status, "error": error.content}
