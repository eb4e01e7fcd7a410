"""The operations. Their docstrings are the API's documentation, at /api/docs."""

from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from ninja import Query, Router, Status

from shorturl import keys, operations, owners, quotas
from shorturl.api import access
from shorturl.api.error_responses import ApiError, unauthorized, wrong_input
from shorturl.api.idempotency_key import HEADER
from shorturl.api.schemas import Change, Error, Link, LinkPage, NewLink, PageQuery
from shorturl.models import ShortUrl, ShortUrlQuerySet
from shorturl.validators import shortened

router = Router(tags=["links"])

UNREADABLE = frozenset({400, 413, 415, 422})  # what can be wrong with a body
# {} says that an operation can also be called without credentials.
OPTIONAL: dict[str, Any] = {"security": [{}]}
LOCATION = {
    "description": "Where this API shows the new short URL.",
    "schema": {"type": "string", "format": "uri"},
}
RATE_LIMIT = {
    "Retry-After": {"description": "In how many seconds.", "schema": {"type": "integer"}},
    "RateLimit-Policy": {
        "description": "The quotas (draft-ietf-httpapi-ratelimit-headers): `q` in `w` seconds.",
        "schema": {"type": "string"},
        "example": '"day";q=10000;w=86400, "minute";q=300;w=60',
    },
    "RateLimit": {
        "description": "What remains (`r`) of the one that is used up, for `t` seconds.",
        "schema": {"type": "string"},
        "example": '"minute";r=0;t=17',
    },
}


@router.post(
    "/links",
    auth=[access.Token("create"), access.Login(), access.anyone_where_public],
    response={frozenset({200, 201}): Link, UNREADABLE | {401, 403, 409, 429, 503}: Error},
    operation_id="create_link",
    summary="Create a short URL",
    openapi_extra={
        **OPTIONAL,
        "responses": {201: {"headers": {"Location": LOCATION}}, 429: {"headers": RATE_LIMIT}},
    },
)
def create_link(request: HttpRequest, response: HttpResponse, body: NewLink) -> Status[Link]:
    """Create a short URL, with a key of your choice or a random one.

    It belongs to your account, or that of the token. A key that is in use, or was before it was
    deleted, is taken: 409.

    With `reuse` the answer is 200 and your own short URL to the same target, if there is a live
    one, and 201 and a new one if not. Two such calls at the same moment get the same short URL.
    One that is found costs nothing of the day's quota, except with an `Idempotency-Key`, whose
    answer is kept; to send a call with `reuse` again is safe without one.
    """
    who = access.caller(request)
    spender, owner_id = quotas.spender_of(who, request), owners.owner_id(who)

    def create() -> tuple[ShortUrl, bool]:
        if not body.reuse:
            fields = body.model_dump(exclude={"reuse"})
            return operations.create(**fields, owner_id=owner_id), True
        short_url, created = reused(body, owner_id)
        # A kept answer is a row as well, of which the quota is the only bound.
        costs = created or HEADER in request.headers
        quotas.give_back(spender, links=0 if costs else 1)
        return short_url, created

    short_url, created = quotas.spend(spender, create)
    location = reverse("api:get_link", args=[short_url.key])
    response["Location"] = request.build_absolute_uri(location)
    hits = 0 if created else ShortUrl.objects.with_total_hits(short_url.key).get().total_hits
    return Status(201 if created else 200, Link.of(short_url, request, hits=hits))


def reused(body: NewLink, owner_id: int | None) -> tuple[ShortUrl, bool]:
    """Return a short URL for a call with `reuse`, and whether it is new; raise ApiError."""
    if owner_id is None:
        raise unauthorized(
            "reuse: It is for your own short URLs: send the token of an account, or log in."
        )
    if others := body.model_dump(exclude={"target_url", "reuse"}, exclude_none=True):
        message = f"Leave out {', '.join(others)}: what is reused keeps what it was made with."
        raise wrong_input(HTTPStatus.UNPROCESSABLE_ENTITY, ("reuse", "not_alone", message))
    return operations.reuse(body.target_url, owner_id=owner_id)


@router.get(
    "/links",
    auth=[access.Token("read"), access.Login()],
    response={200: LinkPage, frozenset({401, 403, 422, 503}): Error},
    operation_id="list_links",
    summary="List your short URLs",
)
def list_links(request: HttpRequest, query: Query[PageQuery]) -> LinkPage:
    """List your short URLs, newest first, a page at a time.

    Follow `next` for the page after this one. A page begins after a given link, not at a given
    number, so links that are created or deleted meanwhile do not shift it, and the last page is as
    fast as the first. There is no total: counting would read the whole table for every page.
    """
    known = owners.links_of(access.caller(request), "view")
    links = known.filter(deleted_at=None).with_total_hits().with_state().order_by("-id")
    if query.after is not None:
        # A deleted link still marks its place.
        last = known.filter(key=query.after).values_list("id", flat=True).first()
        if last is None:
            message = f"There is no short URL {query.after!r}: use the last key of a page."
            raise wrong_input(HTTPStatus.UNPROCESSABLE_ENTITY, ("after", "unknown", message))
        links = links.filter(id__lt=last)
    page = list(links[: query.limit + 1])  # one more tells whether there is a next page
    items = [Link.of(one, request, hits=one.total_hits) for one in page[: query.limit]]
    following = None
    if len(page) > query.limit:
        parameters = urlencode({"limit": query.limit, "after": items[-1].key})
        following = request.build_absolute_uri(f"{request.path}?{parameters}")
    return LinkPage(items=items, next=following)


@router.get(
    "/links/{key}",
    auth=[access.Token("read"), access.anyone_where_stats_are_public, access.Login()],
    response={200: Link, frozenset({401, 403, 404, 503}): Error},
    operation_id="get_link",
    summary="Get a short URL",
    openapi_extra=OPTIONAL,
)
def get_link(request: HttpRequest, key: str) -> Link:
    """Show where a short URL leads and how often it was followed. This counts no hit."""
    short_url = existing(owners.visible_to(access.caller(request)), key)
    return Link.of(short_url, request, hits=short_url.total_hits)


@router.patch(
    "/links/{key}",
    auth=[access.Token("edit"), access.Login()],
    response={200: Link, UNREADABLE | {401, 403, 404, 503}: Error},
    operation_id="change_link",
    summary="Change a short URL",
)
def change_link(request: HttpRequest, key: str, body: Change) -> Link:
    """Change the target, the limit or the expiry of a short URL, which keeps its key and its hits.

    What is left out stays as it is; a limit or an expiry of `null` is removed.
    """
    # The condition is in the statement, so that no deletion and no other owner can come in between.
    links = owners.links_of(access.caller(request), "change")
    if not operations.change(of_key(links, key), **body.model_dump(exclude_unset=True)):
        raise no_such_link(key)
    short_url = existing(links, key)
    return Link.of(short_url, request, hits=short_url.total_hits)


@router.delete(
    "/links/{key}",
    auth=[access.Token("delete"), access.Login()],
    response={204: None, frozenset({401, 403, 404, 503}): Error},
    operation_id="delete_link",
    summary="Delete a short URL",
)
def delete_link(request: HttpRequest, key: str) -> Status[None]:
    """Take a short URL out of service, for good.

    It answers 404 from now on, and its key is never reused, so that a link that was shared never
    leads to somebody else's page.
    """
    deleted, _ = of_key(owners.links_of(access.caller(request), "delete"), key).delete()
    if not deleted:
        raise no_such_link(key)
    return Status(204, None)


def existing(links: ShortUrlQuerySet, key: str) -> ShortUrl:
    """Return the short URL of `key`; raise a 404 where it is none of the `links`."""
    try:
        return of_key(links, key).with_total_hits(key).with_state().get()
    except ShortUrl.DoesNotExist as error:
        raise no_such_link(key) from error


def of_key(links: ShortUrlQuerySet, key: str) -> ShortUrlQuerySet:
    """Return the one of `key` in service, or none, as a query; a 404 for what cannot be a key."""
    # It is not looked for: it may hold a NUL, which no statement can.
    if not keys.CUSTOM_KEY.fullmatch(key):
        raise no_such_link(key)
    return links.filter(key=key, deleted_at=None)


def no_such_link(key: str) -> ApiError:
    """Return the error for a key that leads nowhere."""
    return ApiError(HTTPStatus.NOT_FOUND, f"There is no short URL {shortened(key)!r}.")
