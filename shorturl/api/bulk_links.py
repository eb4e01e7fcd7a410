"""POST /api/links/bulk, which creates many short URLs."""

from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Status
from pydantic import BaseModel, Field, ValidationError

from shorturl import operations
from shorturl.api import access, bulk_body
from shorturl.api.error_responses import RETRY_AFTER, ApiError, describe, wrong_input
from shorturl.api.links import OPTIONAL, RATE_LIMIT, UNREADABLE
from shorturl.api.schemas import Error, Link, NewLink
from shorturl.exceptions import LeftOut
from shorturl.limits import owners, quotas
from shorturl.models import ShortUrl
from shorturl.transfer.bulk import Wanted

router = Router(tags=["links"])

COLUMNS = [name for name in NewLink.model_fields if name != "reuse"]
FAULTLESS = frozenset({201, 424})  # the statuses of valid entries


class BulkQuery(BaseModel):
    """How to create them."""

    atomic: bool = Field(
        True,
        description="true: create all entries or none; false: create every entry that is not at "
        "fault. A JSON body may have this field, too.",
    )


class BulkItem(BaseModel):
    """What became of one entry."""

    number: int = Field(description="Its place among the entries, from 1.")
    status: int = Field(
        description="201 created, 409 the key is taken, 422 invalid, 424 left out because another "
        "one cannot be created, 503 no random key was free.",
    )
    link: Link | None = None
    error: Error | None = None


class BulkResult(BaseModel):
    """What became of the entries, in their order."""

    items: list[BulkItem]


class BulkError(Error):
    """Why a call cannot be answered, or which entries are the reason that nothing was created."""

    items: list[BulkItem] = Field([], description="Left out where the body could not be read.")


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
        "requestBody": {"required": True, "content": bulk_body.CONTENT},
        "responses": {429: {"headers": RATE_LIMIT}},
    },
)
def create_links(
    request: HttpRequest, response: HttpResponse, query: Query[BulkQuery]
) -> Status[Any]:
    """Create up to 1,000 short URLs, all or nothing or entry by entry.

    An entry has the fields of *Create a short URL*. In the answer each entry has its own status:
    201, 409 or 422. The answer is 201 when all were created, and 207 when only some were. Nothing
    is created if every entry is at fault, or, with `atomic`, a single one. Then the answer has the
    status of the first entry at fault, and the entries without a fault have 424.

    Of several entries with the same key, the first one gets it. The others have 409, code
    `duplicate`.
    """
    body = bulk_body.read(request, COLUMNS)
    atomic = query.atomic if body.atomic is None else body.atomic
    checked = list(check(body.links, request))
    links = [each for each in checked if isinstance(each, NewLink)]
    outcomes: Sequence[Any] = [LeftOut()] * len(links)
    if len(links) == len(checked) or not atomic:
        wanted = [
            Wanted(
                link.target_url, link.key, link.model_dump(exclude={"target_url", "key", "reuse"})
            )
            for link in links
        ]
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
            yield bulk_body.invalid(error, "entry")
            continue
        if link.reuse:
            message = "It is for single short URLs: leave it out."
            yield wrong_input(HTTPStatus.UNPROCESSABLE_ENTITY, ("reuse", "not_in_bulk", message))
            continue
        first = numbers.setdefault(link.key, number) if link.key else number
        if first == number:
            yield link
        else:
            message = f"Entry {first} has the key {link.key!r}, too: choose another for this one."
            yield wrong_input(HTTPStatus.CONFLICT, ("key", "duplicate", message))


def item(number: int, outcome: object, request: HttpRequest) -> dict[str, Any]:
    """Return the BulkItem of one entry."""
    if isinstance(outcome, ShortUrl):
        return {"number": number, "status": 201, "link": Link.of(outcome, request, hits=0)}
    error = describe(outcome)
    assert error
    return {"number": number, "status": error.status, "error": error.content}
