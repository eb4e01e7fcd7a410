"""The operations on single short URLs. Their docstrings are shown at /api/docs."""

from functools import partial
from http import HTTPStatus
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse, QueryDict
from ninja import Query, Router, Status
from ninja.decorators import decorate_view
from pydantic import BaseModel

from shorturl import operations
from shorturl.api import access
from shorturl.api.error_responses import ApiError, input_error, unauthorized
from shorturl.api.idempotency_key import HEADER, PARAMETER, idempotent
from shorturl.api.schemas import Change, Error, Link, LinkPage, Links, NewLink, NewLinks, PageQuery
from shorturl.exceptions import Fault
from shorturl.limits import owners, quotas
from shorturl.links import keys
from shorturl.links.validators import shortened
from shorturl.models import ApiToken, ShortUrl, ShortUrlQuerySet

router = Router(tags=["links"])

UNREADABLE = frozenset({400, 413, 415, 422})  # the statuses of an invalid body
OPTIONAL: dict[str, Any] = {"security": [{}]}  # can also be called without credentials
CREATING = {**OPTIONAL, "parameters": [PARAMETER]}


@router.post(
    "/links",
    auth=[access.Token("create"), access.Login(), access.anyone_where_creating_is_public],
    response={frozenset({200, 201}): Link, UNREADABLE | {401, 403, 409, 429, 503}: Error},
    operation_id="create_link",
    summary="Create a short URL",
    openapi_extra=CREATING,
)
@decorate_view(idempotent)
def create_link(request: HttpRequest, response: HttpResponse, body: NewLink) -> Status[Link]:
    """Create a short URL, with a key of your choice or a random one.

    It belongs to your account, or to the token's. A key that is in use, or that was deleted, is
    taken: 409.

    With `reuse` the answer is 200 with your live short URL to the same target, or 201 with a new
    one; a token needs the scope `read`, too. A short URL that is found costs no quota, unless an
    `Idempotency-Key` is sent, which `reuse` does not need.
    """
    caller = access.get_caller(request)
    spender = quotas.spender_of(caller, request)
    if body.reuse:
        owner_id = owner_of_reuse(caller, body)
        answer_is_stored = HEADER in request.headers
        link, is_new = quotas.reuse(
            spender, body.target_url, owner_id=owner_id, answer_is_stored=answer_is_stored
        )
    else:
        fields = body.model_dump(exclude={"reuse"})
        create = partial(operations.create, **fields, owner_id=owners.owner_id(caller))
        link = quotas.spend(spender, create)
        is_new = True
    response["Location"] = request.build_absolute_uri(f"{request.path}/") + link.key
    return Status(201 if is_new else 200, Link.of(link, request))


def owner_of_reuse(caller: owners.Caller, body: NewLink) -> int:
    """Return the account whose link may be reused; raise ApiError where none can be."""
    if isinstance(caller, ApiToken):
        access.require_scope(caller, "read")  # the answer shows the hits and title of an old link
    owner_id = owners.owner_id(caller)
    if owner_id is None:
        raise unauthorized("`reuse` needs an account: send its token, or log in.")
    other_fields = body.model_dump(exclude={"target_url", "reuse"}, exclude_defaults=True)
    if other_fields:
        message = f"Leave out {', '.join(other_fields)}: a reused short URL keeps its own values."
        raise input_error("reuse", "not_alone", message)
    return owner_id


@router.post(
    "/links/bulk",
    auth=[access.Token("create"), access.Login(), access.anyone_where_creating_is_public],
    response={201: Links, UNREADABLE | {401, 403, 409, 429, 503}: Error},
    operation_id="create_links",
    summary="Create many short URLs",
    openapi_extra=CREATING,
)
@decorate_view(idempotent)
def create_links(request: HttpRequest, body: NewLinks) -> Status[Links]:
    """Create up to 1,000 short URLs: all of them, or none.

    An entry has the fields of *Create a short URL*, but for `reuse`. An error names every bad entry
    by its index from 0, such as `links.3.key`; then nothing was created.
    """
    refuse_repeated_keys(body)
    caller = access.get_caller(request)
    rows = [link.model_dump() for link in body.links]
    create = partial(operations.create_many, rows, owner_id=owners.owner_id(caller))
    links = quotas.spend(quotas.spender_of(caller, request), create, links=len(rows))
    return Status(201, Links(links=[Link.of(link, request) for link in links]))


def refuse_repeated_keys(body: NewLinks) -> None:
    """Raise ApiError with each link whose key an earlier link of the request has, too."""
    first: dict[str, int] = {}  # the index of the first link with a key
    faults = []
    for index, link in enumerate(body.links):
        if link.key in first:
            message = f"links.{first[link.key]} has the same key."
            faults.append(Fault(f"links.{index}.key", "duplicate", message))
        elif link.key:
            first[link.key] = index
    if faults:
        raise ApiError(HTTPStatus.CONFLICT, faults=faults)


@router.get(
    "/links",
    auth=[access.Token("read"), access.Login()],
    response={200: LinkPage, frozenset({401, 403, 422, 503}): Error},
    operation_id="list_links",
    summary="List your short URLs",
)
def list_links(request: HttpRequest, query: Query[PageQuery]) -> LinkPage:
    """List your short URLs, or those that match all filters, newest first, a page at a time.

    `next` is what to send as `after`, with the same filters, for the next page. A page begins after
    a given link, not at a given number, so links that are created or deleted meanwhile do not shift
    it, and the last page is as fast as the first. There is no total: counting would read the whole
    table for every page.
    """
    refuse_unknown_parameters(request.GET, PageQuery)
    visible = owners.links_of(access.get_caller(request), "view")
    links = visible.filter(deleted_at=None).matching(dict(query), request.get_host())
    links = links.with_state().order_by("-id")
    if query.after is not None:
        # The page before may end with a link that was deleted since.
        last_id = visible.filter(key=query.after).values_list("id", flat=True).first()
        if last_id is None:
            message = f"There is no short URL {query.after!r}: use the `next` of a page."
            raise input_error("after", "unknown", message)
        links = links.filter(id__lt=last_id)
    rows = list(links[: query.limit + 1])  # one more shows whether there is a next page
    items = [Link.of(link, request) for link in rows[: query.limit]]
    return LinkPage(items=items, next=items[-1].key if len(rows) > query.limit else None)


def refuse_unknown_parameters(parameters: QueryDict, *schemas: type[BaseModel]) -> None:
    """Raise ApiError for a parameter that is no field of the schemas, or that is sent twice."""
    known = [
        field.alias or name for schema in schemas for name, field in schema.model_fields.items()
    ]
    for name, values in parameters.lists():
        if name not in known:
            message = f"The parameter is not known: use {', '.join(known)}."
            raise input_error(name, "unknown", message)
        if len(values) > 1:
            message = "The parameter occurs more than once: send it once."
            raise input_error(name, "repeated", message)


@router.get(
    "/links/{key}",
    auth=[access.Token("read"), access.anyone_where_stats_are_public, access.Login()],
    response={200: Link, frozenset({401, 403, 404, 503}): Error},
    operation_id="get_link",
    summary="Get a short URL",
    openapi_extra=OPTIONAL,
)
def get_link(request: HttpRequest, key: str) -> Link:
    """Show where a short URL leads and how often it was followed. This call counts no hit."""
    caller = access.get_caller(request)
    link = find_link(owners.visible_to(caller), key)
    return Link.of(link, request, shows_target=owners.may_see_target(caller, link))


@router.patch(
    "/links/{key}",
    auth=[access.Token("edit"), access.Login()],
    response={200: Link, UNREADABLE | {401, 403, 404, 503}: Error},
    operation_id="change_link",
    summary="Change a short URL",
)
def change_link(request: HttpRequest, key: str, body: Change) -> Link:
    """Change a short URL, which keeps its key and its hits.

    A field that is left out stays as it is. `null` removes a limit or an expiry, `""` a title, and
    `[]` all tags.
    """
    # One statement checks owner and deletion and changes the link, so neither can change between.
    # It locks the link, so that the answer shows it before another deletes it.
    links = owners.links_of(access.get_caller(request), "change")
    with transaction.atomic():
        if not operations.change(links_with_key(links, key), **body.model_dump(exclude_unset=True)):
            raise link_not_found(key)
        return Link.of(find_link(links, key), request)


@router.delete(
    "/links/{key}",
    auth=[access.Token("delete"), access.Login()],
    response={204: None, frozenset({401, 403, 404, 503}): Error},
    operation_id="delete_link",
    summary="Delete a short URL",
)
def delete_link(request: HttpRequest, key: str) -> Status[None]:
    """Take a short URL out of service, for good.

    The short URL answers 404 from now on. Its key is never reused, so that a link that was shared
    never leads to another page.
    """
    deleted, _ = links_with_key(owners.links_of(access.get_caller(request), "delete"), key).delete()
    if not deleted:
        raise link_not_found(key)
    return Status(204, None)


def find_link(links: ShortUrlQuerySet, key: str) -> ShortUrl:
    try:
        return links_with_key(links, key).with_state().get()
    except ShortUrl.DoesNotExist as error:
        raise link_not_found(key) from error


def links_with_key(links: ShortUrlQuerySet, key: str) -> ShortUrlQuerySet:
    if not keys.CUSTOM_KEY.fullmatch(key):  # the key may have a NUL, which PostgreSQL refuses
        raise link_not_found(key)
    return links.filter(key=key, deleted_at=None)


def link_not_found(key: str) -> ApiError:
    return ApiError(HTTPStatus.NOT_FOUND, f"There is no short URL {shortened(key)!r}.")
