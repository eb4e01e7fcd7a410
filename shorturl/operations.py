"""The operations of the service: create, reuse and change links, and answer repeated requests.

A hit is counted in following.py, and a quota spent in limits/quotas.py.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from django.db import DatabaseError, IntegrityError, transaction

from shorturl import bans, bulk, cluster
from shorturl.creating import insert_unless_banned
from shorturl.exceptions import (
    KeyReused,
    KeySpaceExhausted,
    KeyTaken,
    LimitTooLow,
)
from shorturl.links import keys
from shorturl.links.keys import violates
from shorturl.links.validators import validate_target_url
from shorturl.models import LIMIT_CONSTRAINT, IdempotencyRecord, ShortUrl, ShortUrlQuerySet
from shorturl.outages import is_outage
from shorturl.strategies.creating import on_conflict
from shorturl.strategies.idempotency import advisory_lock as idempotency
from shorturl.strategies.reusing import advisory_lock as reusing

MAX_NODES_TRIED = 10  # by a create while nodes of a cluster are away


def create(
    target_url: str,
    *,
    key: str | None = None,
    owner_id: int | None = None,
    max_hits: int | None = None,
    expires_at: datetime | None = None,
    title: str = "",
    tags: list[str] | None = None,
    forward_query: bool = False,
) -> ShortUrl:
    """Return a new short URL, with a random key unless `key` is given. Safe inside atomic().

    Title and tags are as links/labels.py returns them. Raises ValidationError for an invalid target
    URL or custom key, TargetBanned, KeyTaken for a custom key that is or was in use, and
    KeySpaceExhausted when no random key was free.
    """
    validate_target_url(target_url)
    if key is not None:
        keys.validate_custom_key(key)
    values: dict[str, Any] = {
        "owner_id": owner_id,
        "max_hits": max_hits,
        "expires_at": expires_at,
        "title": title,
        "tags": tags,
        "forward_query": forward_query,
    }
    if not cluster.is_distributed():  # there the INSERT of a key goes to one node, without the bans
        first_key = key or next(iter(keys.candidates()))
        if link := insert_unless_banned(first_key, target_url, values):
            return link
    # The target is banned, or the key is taken.
    with transaction.atomic():
        bans.refuse_banned([target_url])
        if key is None:
            return with_candidates(partial(on_conflict.create, target_url, **values))
        try:
            return on_conflict.create(target_url, keys=[key], **values)
        except KeySpaceExhausted as error:
            raise KeyTaken(key, deleted=bool(bulk.find_deleted([key]))) from error


def create_many(rows: Sequence[Mapping[str, Any]], *, owner_id: int | None) -> list[ShortUrl]:
    """Return a new link for each row, or create none. The rows have the arguments of create().

    Raises the errors of create(), but LinksRefused for TargetBanned and KeyTaken.
    """
    for row in rows:
        validate_target_url(row["target_url"])
        if row["key"] is not None:
            keys.validate_custom_key(row["key"])
    return bulk.create_all([{**row, "owner_id": owner_id} for row in rows])


def with_candidates(create: Callable[..., ShortUrl]) -> ShortUrl:
    """Call `create` with random keys; on a cluster with others again, while a node is away."""
    for _ in range(MAX_NODES_TRIED - 1 if cluster.is_distributed() else 0):
        try:
            with transaction.atomic():  # an error leaves the caller's transaction usable
                return create(keys=keys.candidates())
        except DatabaseError as error:
            if not is_outage(error):
                raise
    return create(keys=keys.candidates())


def find_reusable(target_url: str, *, owner_id: int) -> ShortUrl | None:
    """Return the owner's oldest live link, if any; it takes no lock, so reuse() looks again."""
    links = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
    return links.order_by("id").first()


def reuse(target_url: str, *, owner_id: int) -> tuple[ShortUrl, bool]:
    """Return the owner's oldest live link to `target_url`, or a new one, and whether it is new."""
    create_one = partial(create, target_url, owner_id=owner_id)
    return reusing.reuse(target_url, owner_id=owner_id, create=create_one)


def change(links: ShortUrlQuerySet, **values: Any) -> bool:
    """Change the short URL in `links`, which has at most one; return whether there was one.

    Raises LimitTooLow for a limit below the hits. Raises TargetBanned also for a new expiry of a
    link to a banned domain: the ban has set the expiry.
    """
    try:
        with transaction.atomic():  # an error leaves the caller's transaction usable
            if "target_url" in values:
                bans.refuse_banned([values["target_url"]])
            elif "expires_at" in values:
                locked = links.select_for_update(no_key=True)
                bans.refuse_banned(locked.values_list("target_url", flat=True))
            return bool(links.update(**values))
    except IntegrityError as error:
        if not violates(error, LIMIT_CONSTRAINT):
            raise
        raise LimitTooLow(values["max_hits"]) from error


def answer(
    caller: str, key: str, fingerprint: str, *, work: Callable[[], dict[str, Any]]
) -> IdempotencyRecord:
    """Return the answer to the caller's request with this Idempotency-Key; do its work only once.

    `work` returns the fields of the answer; its exceptions are raised, and its changes rolled back.
    Raises InFlight while the first request with this key is in progress, and KeyReused if it had
    another `fingerprint`, a hash of the request.
    """
    record = idempotency.answer(caller, key, fingerprint, work=work)
    if record.fingerprint != fingerprint:
        raise KeyReused(key)
    return record
