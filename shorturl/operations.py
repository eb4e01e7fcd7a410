"""The operations of the service, each by the strategy that the settings choose.

Applications call these functions. The strategies themselves import only the model.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from django.conf import settings
from django.db import DatabaseError, IntegrityError, OperationalError, transaction
from django.db.backends.utils import CursorWrapper

from shorturl.exceptions import RowLocked, ShortUrlError
from shorturl.links import keys
from shorturl.links.keys import is_collision, violates
from shorturl.links.validators import validate_target_url
from shorturl.models import (
    LIMIT_CONSTRAINT,
    IdempotencyRecord,
    LinkState,
    ShortUrl,
    ShortUrlQuerySet,
    Visit,
)
from shorturl.outages import LOCK_NOT_AVAILABLE, driver_error, missing_node
from shorturl.strategies.creating import table as creating
from shorturl.strategies.idempotency import table as idempotency
from shorturl.strategies.recording_visits import table as recording_visits
from shorturl.strategies.resolving import table as resolving
from shorturl.strategies.reusing import table as reusing
from shorturl.strategies.strategy import Counted, Strategy, Verdict
from shorturl.transfer import bulk

# Attempts of a create whose random keys are on nodes that do not answer. With half of all nodes
# down, one create in a thousand fails.
NODES_TRIED = 10
SETTINGS = {"recording_visits": "SHORTURL_VISITS"}  # not named after the folder


def setting(operation: str) -> str:
    """Return the name of the setting that chooses the strategy of an operation."""
    return SETTINGS.get(operation, f"SHORTURL_{operation.upper()}")


def create(
    target_url: str,
    *,
    key: str | None = None,
    owner_id: int | None = None,
    max_hits: int | None = None,
    expires_at: datetime | None = None,
    title: str = "",
    tags: list[str] | None = None,
) -> ShortUrl:
    """Return a new short URL, with a random key unless `key` is given. Safe inside atomic().

    The link leads to its target `max_hits` times and until `expires_at`. `title` and `tags` are as
    links/labels.py returns them.

    Raises ValidationError for an invalid target URL or custom key, ShortUrl.KeyTaken for a custom
    key that is or was in use, and ShortUrl.KeySpaceExhausted when no random key was free.
    """
    validate_target_url(target_url)
    limits = {"max_hits": max_hits, "expires_at": expires_at}
    values = {"owner_id": owner_id, **limits, "title": title, "tags": tags}
    strategy = creating.STRATEGIES[settings.SHORTURL_CREATING]
    if key is None:
        return create_at_random(strategy, target_url, **values)
    keys.validate_custom_key(key)
    if not strategy.draws_keys:
        strategy = creating.STRATEGIES["on_conflict"]
    # A custom key is the only candidate, so a taken one is not retried. The strategy decides which
    # of two concurrent requests gets it.
    try:
        return create_by(strategy, target_url, keys=[key], **values)
    except ShortUrl.KeySpaceExhausted as error:
        raise ShortUrl.KeyTaken(key, deleted=bool(deleted([key]))) from error


def create_at_random(
    strategy: Strategy[creating.Create], target_url: str, **values: Any
) -> ShortUrl:
    """Return a new short URL with a random key; on a cluster, with one whose node answers."""
    create = partial(create_by, strategy, target_url, **values)
    for _ in range(NODES_TRIED - 1 if settings.DATABASE_CITUS else 0):
        try:
            with transaction.atomic():  # an error leaves the caller's usable
                return create(keys=keys.candidates())
        except DatabaseError as error:
            if not missing_node(error):
                raise
    return create(keys=keys.candidates())


def create_by(
    strategy: Strategy[creating.Create], target_url: str, *, keys: Iterable[str], **values: Any
) -> ShortUrl:
    try:
        return strategy.function(target_url, keys=keys, **values)
    except IntegrityError as error:
        if strategy.verdict is not Verdict.RIGHT or not is_collision(error):
            raise
    # `advisory_lock` can collide with create_many() and imports, which take no such lock.
    return creating.STRATEGIES["on_conflict"].function(target_url, keys=keys, **values)


def create_many(
    wanted: Sequence[bulk.Wanted], *, all_or_nothing: bool, owner_id: int | None = None
) -> list[ShortUrl | ShortUrlError]:
    """Return for each entry its new short URL, or why there is none: see bulk.create_many().

    Raises ValidationError for an invalid target URL or custom key.
    """
    for each in wanted:
        validate_target_url(each.target_url)
        if each.key is not None:
            keys.validate_custom_key(each.key)
    owned = [each._replace(values={**each.values, "owner_id": owner_id}) for each in wanted]
    outcomes = bulk.create_many(owned, all_or_nothing=all_or_nothing)
    taken = [outcome for outcome in outcomes if isinstance(outcome, ShortUrl.KeyTaken)]
    gone = deleted([error.key for error in taken])
    for error in taken:
        error.deleted = error.key in gone
    return outcomes


def deleted(taken: list[str]) -> set[str]:
    links = ShortUrl.objects.filter(key__in=taken, deleted_at__isnull=False)
    return set(links.values_list("key", flat=True))


def reusable(target_url: str, *, owner_id: int) -> ShortUrl | None:
    """Return the owner's oldest live link, if any; it takes no lock: reuse() looks again."""
    links = ShortUrl.objects.live().filter(owner_id=owner_id, target_url=target_url)
    return links.order_by("id").first()


def reuse(target_url: str, *, owner_id: int) -> tuple[ShortUrl, bool]:
    """Return the owner's oldest live link to `target_url`, or a new one, and whether it is new.

    Raises the errors of create(), and ShortUrl.Contended when an optimistic strategy gives up.
    """
    strategy = reusing.STRATEGIES[settings.SHORTURL_REUSING]
    made = partial(create, target_url, owner_id=owner_id)
    return strategy.function(target_url, owner_id=owner_id, create=made)


def change(links: ShortUrlQuerySet, **values: Any) -> bool:
    """Change the short URL in `links`, which has at most one; return whether there was one.

    Hits may be counted at the same time. Raises ShortUrl.LimitTooLow for a limit below the hits.
    """
    try:
        with transaction.atomic():  # an error leaves the caller's usable
            return bool(links.update(**values))
    except IntegrityError as error:
        if not violates(error, LIMIT_CONSTRAINT):
            raise
        raise ShortUrl.LimitTooLow(values["max_hits"]) from error


def resolve(key: str) -> ShortUrl:
    """Count a hit; return the short URL of `key`.

    Raises ShortUrl.DoesNotExist when no short URL has the key, or it was deleted; ShortUrl.Gone
    when it has expired or is used up; ShortUrl.Contended when an optimistic strategy gives up.
    """
    return resolve_by(resolving.STRATEGIES[settings.SHORTURL_RESOLVING].function, key)


def follow(key: str, visit: Visit) -> ShortUrl:
    """Count a hit and record its visit; return the short URL; raise the errors of resolve()."""
    function = recording_visits.STRATEGIES[settings.SHORTURL_VISITS].function
    return resolve_by(lambda key: function(key, visit), key)


def following() -> Strategy[Any]:
    """Return the strategy of redirects, which records visits unless visits are off."""
    if settings.SHORTURL_VISITS:
        return recording_visits.STRATEGIES[settings.SHORTURL_VISITS]
    return resolving.STRATEGIES[settings.SHORTURL_RESOLVING]


def follow_several(
    visits: Mapping[str, Sequence[Visit]], cursor: CursorWrapper
) -> dict[str, Counted]:
    """Count the visits of several keys in one statement, which waits for no link.

    It returns the columns of the link and the number of the last hit by key, for the keys that it
    has counted: none if the strategy of redirects has no such statement. For the other keys call
    follow_often().
    """
    count = following().count
    if count is None:
        return {}
    if settings.SHORTURL_VISITS:
        return count(visits, cursor)
    return count({key: len(of_key) for key, of_key in visits.items()}, cursor)


def follow_often(key: str, visits: Sequence[Visit], cursor: CursorWrapper) -> list[Counted]:
    """Count the visits of one key; return a row for each counted one, with the last number.

    One statement counts all of them. If fewer uses are left, one statement counts each visit until
    no use is left.

    Raises RowLocked when another transaction keeps the row locked.
    """
    count_one: Any = following().count_one  # not None, or hits would not be collected
    try:
        found = count_one(key, visits if settings.SHORTURL_VISITS else len(visits), cursor)
    except OperationalError as error:
        if not driver_error(error, LOCK_NOT_AVAILABLE):
            raise
        raise RowLocked(key) from error
    if found:
        return [found] * len(visits)
    if len(visits) == 1:
        return []
    counted: list[Counted] = []
    for visit in visits:
        try:
            one = follow_often(key, [visit], cursor)
        except Exception:
            if not counted:
                raise
            break  # the counted hits are committed, and must be answered
        if not one:
            break
        counted += one
    return counted


def resolve_by(function: Callable[[str], ShortUrl], key: str) -> ShortUrl:
    """Count a hit by the function of a strategy; return the short URL of `key`.

    Raises the errors of resolve(), and RowLocked when another transaction keeps the row locked.
    """
    try:
        return function(key)
    except ShortUrl.DoesNotExist:
        raise why_not_counted(key) from None
    except OperationalError as error:
        if not driver_error(error, LOCK_NOT_AVAILABLE):
            raise
        raise RowLocked(key) from error


def why_not_counted(key: str) -> Exception:
    """Return the error to raise for a hit that found no live link."""
    try:
        look_up(key)
    except Exception as error:
        return error
    return ShortUrl.Contended(key, attempts=1)  # the link has become live meanwhile


def look_up(key: str) -> ShortUrl:
    """Return the short URL of `key` without counting a hit; raise the errors of resolve()."""
    short_url = ShortUrl.objects.with_state().get(key=key, deleted_at=None)
    if short_url.state != LinkState.LIVE:
        raise ShortUrl.Gone(key, short_url.state)
    return short_url


def answer(
    caller: str, key: str, fingerprint: str, *, work: Callable[[], dict[str, Any]]
) -> IdempotencyRecord:
    """Return the answer to the caller's request with this Idempotency-Key; do its work only once.

    `fingerprint` is a hash of the request. `work` returns the fields of the answer; its exceptions
    are raised, and its changes rolled back.

    Raises IdempotencyRecord.InFlight while the first request with this key is in progress, and
    IdempotencyRecord.KeyReused if the first request with this key was a different one.
    """
    strategy = idempotency.STRATEGIES[settings.SHORTURL_IDEMPOTENCY]
    kept = strategy.function(caller, key, fingerprint, work=work)
    if kept.fingerprint != fingerprint:
        raise IdempotencyRecord.KeyReused(key)
    return kept
