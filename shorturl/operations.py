"""The service's operations, each by the strategy that the settings choose.

The strategies in the folders only import the model; an application calls what is here.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from django.conf import settings
from django.db import IntegrityError, OperationalError, transaction

from shorturl import (
    bulk,
    creating,
    idempotency,
    keys,
    recording_visits,
    resolving,
    reusing,
    rolling_up,
    spending,
)
from shorturl.exceptions import ShortUrlError
from shorturl.keys import is_collision, violates
from shorturl.models import LIMIT_CONSTRAINT, KeptAnswer, LinkState, ShortUrl, ShortUrlQuerySet
from shorturl.roll_up import gather
from shorturl.strategies import Strategy, Verdict
from shorturl.validators import validate_target_url
from shorturl.visits import Visit

# A row for each operation, by its folder. The setting SHORTURL_CREATING chooses a strategy of it.
STRATEGIES: dict[str, dict[str, Strategy[Any]]] = {
    "creating": creating.STRATEGIES,
    "resolving": resolving.STRATEGIES,
    "reusing": reusing.STRATEGIES,
    "idempotency": idempotency.STRATEGIES,
    "spending": spending.STRATEGIES,
    "recording_visits": recording_visits.STRATEGIES,
    "rolling_up": rolling_up.STRATEGIES,
}
SETTINGS = {"recording_visits": "SHORTURL_VISITS"}  # where it is not the folder's name


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
) -> ShortUrl:
    """Return a new short URL that leads to `target_url`.

    `key` is a custom key; without it a random one is drawn. `owner_id` is the account that it
    belongs to; without it, it is nobody's. `max_hits` is how often it leads there, and `expires_at`
    until when. Safe to call inside atomic().

    Raises ValidationError for an invalid target URL or custom key, ShortUrl.KeyTaken for a custom
    key that is or was in use, ShortUrl.KeySpaceExhausted when no random key was free.
    """
    validate_target_url(target_url)
    values = {"owner_id": owner_id, "max_hits": max_hits, "expires_at": expires_at}
    strategy = creating.STRATEGIES[settings.SHORTURL_CREATING]
    if key is None:
        return create_by(strategy, target_url, keys=keys.candidates(), **values)
    keys.validate_custom_key(key)
    if not strategy.draws_keys:
        strategy = creating.STRATEGIES["on_conflict"]
    # A custom key is the only candidate, so that a taken one is never retried, and the strategy
    # decides between two people who want the same one.
    try:
        return create_by(strategy, target_url, keys=[key], **values)
    except ShortUrl.KeySpaceExhausted as error:
        raise ShortUrl.KeyTaken(key, deleted=bool(deleted([key]))) from error


def create_by(
    strategy: Strategy[creating.Create], target_url: str, *, keys: Iterable[str], **values: Any
) -> ShortUrl:
    """Return a new short URL, by one of the strategies.

    create_many() and an import ask for no lock by name: one of theirs can be in the way of
    `advisory_lock`, which then leaves it to `on_conflict`. An exhibit is shown as it is.
    """
    try:
        return strategy.function(target_url, keys=keys, **values)
    except IntegrityError as error:
        if strategy.verdict is not Verdict.RIGHT or not is_collision(error):
            raise
    return creating.STRATEGIES["on_conflict"].function(target_url, keys=keys, **values)


def create_many(
    wanted: Sequence[bulk.Wanted], *, all_or_nothing: bool, owner_id: int | None = None
) -> list[ShortUrl | ShortUrlError]:
    """Return for each entry its new short URL, or why there is none: see bulk.create_many().

    It is one statement, whichever strategy creates single ones. All of them belong to the account
    `owner_id`, or to nobody. Safe to call inside atomic().

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
    """Return which of the keys are those of deleted links, for the message that says so."""
    links = ShortUrl.objects.filter(key__in=taken, deleted_at__isnull=False)
    return set(links.values_list("key", flat=True))


def reuse(target_url: str, *, owner_id: int) -> tuple[ShortUrl, bool]:
    """Return the owner's oldest live link to `target_url`, or a new one, and whether it is new.

    Safe to call inside atomic(). Raises what create() raises, and ShortUrl.Contended when an
    optimistic strategy gives up.
    """
    strategy = reusing.STRATEGIES[settings.SHORTURL_REUSING]
    made = partial(create, target_url, owner_id=owner_id)
    return strategy.function(target_url, owner_id=owner_id, create=made)


def change(links: ShortUrlQuerySet, **values: Any) -> bool:
    """Change a short URL, and return whether there was one; `links` is that one, or none.

    Hits go on arriving meanwhile. A limit applies to all that was counted, whichever strategy did;
    only a hit in another table that is under way at this moment is not among them.

    Raises ShortUrl.LimitTooLow for a limit below the hits.
    """
    limit = values.get("max_hits")
    if limit is None:
        return bool(links.update(**values))
    try:
        with transaction.atomic():
            for key in links.values_list("key", flat=True):
                gather(key, limit)
            changed = bool(links.update(**values))
            # Somebody has deleted it, or given it to somebody else, since the look at its key.
            transaction.set_rollback(not changed)
            return changed
    except IntegrityError as error:
        if not violates(error, LIMIT_CONSTRAINT):
            raise
        raise ShortUrl.LimitTooLow(limit) from error


def resolve(key: str) -> ShortUrl:
    """Return the short URL of `key`, with this hit counted.

    Raises ShortUrl.DoesNotExist when there is none, or it was deleted; ShortUrl.Gone when it has
    expired or is used up; ShortUrl.Contended when an optimistic strategy gives up.
    """
    return resolve_by(resolving.STRATEGIES[settings.SHORTURL_RESOLVING].function, key)


def follow(key: str, visit: Visit) -> ShortUrl:
    """Return the short URL of `key`, with this hit counted and its visit recorded.

    Raises what resolve() does.
    """
    function = recording_visits.STRATEGIES[settings.SHORTURL_VISITS].function
    return resolve_by(partial(function, visit=visit), key)


def following() -> Strategy[Any]:
    """Return the strategy of a redirect, which records its visit unless visits are off."""
    if settings.SHORTURL_VISITS:
        return recording_visits.STRATEGIES[settings.SHORTURL_VISITS]
    return resolving.STRATEGIES[settings.SHORTURL_RESOLVING]


def follow_together(key: str, visits: Sequence[object]) -> list[ShortUrl | BaseException]:
    """Return what a redirect returns or raises for each of the visits, which are counted as one.

    Raises OperationalError when none is counted for it, and TypeError where the strategy of a
    redirect counts one hit at a time.
    """
    strategy = following()
    if strategy.together is None:
        raise TypeError(f"{strategy.name} counts one hit at a time.")
    outcomes = strategy.together(key, visits)
    if isinstance(outcomes[0], OperationalError):
        raise outcomes[0]
    if any(isinstance(each, ShortUrl.DoesNotExist) for each in outcomes):
        why = why_not_counted(key)
        return [why if isinstance(each, ShortUrl.DoesNotExist) else each for each in outcomes]
    return outcomes


def resolve_by(function: Callable[[str], ShortUrl], key: str) -> ShortUrl:
    """Return the short URL of `key`, with this hit counted by one of the strategies.

    Raises what resolve() does.
    """
    try:
        return function(key)
    except ShortUrl.DoesNotExist:
        raise why_not_counted(key) from None


def why_not_counted(key: str) -> Exception:
    """Return what to raise for a hit that found no live link; only such a hit asks."""
    try:
        look_up(key)
    except Exception as error:
        return error
    return ShortUrl.Contended(key, attempts=1)  # live by now, and not just before


def look_up(key: str) -> ShortUrl:
    """Return the short URL of `key` if it is live, without counting a hit; raise as resolve()."""
    short_url = ShortUrl.objects.with_state().get(key=key, deleted_at=None)
    if short_url.state != LinkState.LIVE:
        raise ShortUrl.Gone(key, short_url.state)
    return short_url


def answer(
    caller: str, key: str, fingerprint: str, *, work: Callable[[], dict[str, Any]]
) -> KeptAnswer:
    """Return the answer to the caller's request with this Idempotency-Key; do the work but once.

    `fingerprint` is that of the request. `work` does what is asked for and returns the fields of
    its answer; what it raises is raised, and nothing of it is kept.

    Raises KeptAnswer.InFlight while the first request with this key is at work, and
    KeptAnswer.KeyReused for one that asked for something else.
    """
    strategy = idempotency.STRATEGIES[settings.SHORTURL_IDEMPOTENCY]
    kept = strategy.function(caller, key, fingerprint, work=work)
    if kept.fingerprint != fingerprint:
        raise KeptAnswer.KeyReused(key)
    return kept
