"""Following a link: count the hit, and record its visit.

A redirect comes here from the event loop, where one statement counts all hits that wait, or from
Django's view, where each hit has its own. A hit is its Visit; None with SHORTURL_VISITS=off.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial, wraps
from time import monotonic
from typing import Any, ParamSpec, TypeVar, cast

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import OperationalError
from django.db.backends.utils import CursorWrapper

from shorturl.exceptions import Contended, Gone, RowLocked
from shorturl.limits import bans
from shorturl.links import validators
from shorturl.links.keys import key_of as key_of
from shorturl.models import Counted, LinkState, ShortUrl, Visit
from shorturl.outages import LOCK_NOT_AVAILABLE, driver_error, is_busy, is_outage, missing_node
from shorturl.strategies.recording_visits import combined as with_visits
from shorturl.strategies.resolving import combined as without_visits
from shorturl.visits.classification import classify_visit

# In the WSGI environ: the outcome of a hit that was counted before Django. It is what was counted,
# an error, or None if no live link has the key.
FOUND = "shorturl.found"
MOST_TARGETS = 10_000  # remembered results of location()
# After so many failures in a row, redirects fail; for so many seconds after the last of them, as
# nobody sends redirects to a service that is not ready.
FAILURES, FAILURES_HOLD = 3, 5.0
MOST_KEYS = 10_000  # remembered by forwards_query()

P = ParamSpec("P")
T = TypeVar("T")
# The keys of links that did not forward the query, and when they were read, by monotonic().
without_query: dict[str, float] = {}


class Failures:
    """The outages in a row of this process's statements that count hits."""

    number, last = 0, 0.0


def noted(count: Callable[P, T]) -> Callable[P, T]:
    """Read the bans before a function that counts hits, and note its failures for failing()."""

    @wraps(count)
    def noting(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            bans.refresh()
            counted = count(*args, **kwargs)
        except Exception as error:
            if is_outage(error) and not is_busy(error) and not missing_node(error):
                Failures.number, Failures.last = Failures.number + 1, monotonic()
            raise
        if counted:  # unknown keys alone write nothing
            Failures.number = 0
        return counted

    return noting


def failing() -> bool:
    """Return whether redirects fail although the database answers, as with a full disk."""
    return Failures.number >= FAILURES and monotonic() < Failures.last + FAILURES_HOLD


def headers() -> list[str]:
    """Return the names in the WSGI environ on which a visit depends."""
    names = ["HTTP_USER_AGENT", "HTTP_REFERER"] if settings.SHORTURL_VISITS else []
    return names + (["HTTP_X_FORWARDED_FOR"] if settings.SHORTURL_GEOIP else [])


def hit_of(environ: Mapping[str, Any]) -> Visit | None:
    """Return the hit of a request by its WSGI environ."""
    if not settings.SHORTURL_VISITS:
        return None
    return classify_visit(environ, with_country=bool(settings.SHORTURL_GEOIP))


def count_several(
    hits: Mapping[str, Sequence[Visit | None]], cursor: CursorWrapper
) -> dict[str, Counted]:
    """Count the hits of several keys in one statement, which waits for no link.

    Return the link by key, with the number of its last hit, for the keys that are counted. For the
    other keys call count_key().
    """
    if settings.SHORTURL_VISITS:
        return with_visits.count(cast("Mapping[str, Sequence[Visit]]", hits), cursor)
    return without_visits.count({key: len(of_key) for key, of_key in hits.items()}, cursor)


def count_key(key: str, hits: Sequence[Visit | None], cursor: CursorWrapper) -> list[Counted]:
    """Count the hits of one key; return the link for each counted one, with the last number.

    One statement counts all of them. If fewer uses are left, one statement counts each hit until no
    use is left.

    Raises RowLocked when another transaction keeps the row locked.
    """
    try:
        if settings.SHORTURL_VISITS:
            found = with_visits.count_one(key, cast("Sequence[Visit]", hits), cursor)
        else:
            found = without_visits.count_one(key, len(hits), cursor)
    except OperationalError as error:
        raise_if_locked(key, error)
        raise
    if found:
        return [found] * len(hits)
    if len(hits) == 1:
        return []
    counted: list[Counted] = []
    for hit in hits:
        try:
            one = count_key(key, [hit], cursor)
        except Exception:
            if not counted:
                raise
            break  # the counted hits are committed, and must be answered
        if not one:
            break
        counted += one
    return counted


@noted
def follow(key: str, hit: Visit | None) -> ShortUrl:
    """Count one hit by a statement of its own; return the short URL of `key`.

    Raises ShortUrl.DoesNotExist when no short URL has the key, or it was deleted; Gone
    when it has expired or is used up; RowLocked when another transaction keeps the row locked.
    """
    if hit:
        return counted_by(partial(with_visits.record, visit=hit), key)
    return counted_by(without_visits.resolve, key)


def counted_by(function: Callable[[str], ShortUrl], key: str) -> ShortUrl:
    """Count a hit by the function of a strategy; raise the errors of follow()."""
    try:
        return function(key)
    except ShortUrl.DoesNotExist:
        raise why_not_counted(key) from None
    except OperationalError as error:
        raise_if_locked(key, error)
        raise


def raise_if_locked(key: str, error: OperationalError) -> None:
    """Raise RowLocked for the error of a row that stays locked."""
    if driver_error(error, LOCK_NOT_AVAILABLE):
        raise RowLocked(key) from error


def why_not_counted(key: str) -> Exception:
    """Return the error to raise for a hit that found no live link."""
    try:
        look_up(key)
    except Exception as error:
        return error
    return Contended(key, attempts=1)  # the link has become live meanwhile


def look_up(key: str) -> ShortUrl:
    """Return the short URL of `key` without counting a hit; raise the errors of follow()."""
    bans.refresh()
    short_url = ShortUrl.objects.with_state().get(key=key, deleted_at=None)
    if short_url.state != LinkState.LIVE:
        raise Gone(key, short_url.state)
    return short_url


def may_forward_query(key: str) -> bool:
    """Return False if the link did not forward the query bans.HOLDS seconds ago or less."""
    return monotonic() - without_query.get(key, float("-inf")) > bans.HOLDS


def forwards_query(key: str) -> bool:
    """Return whether the link forwards the query of its short URL.

    Only a request with a query asks. Many links are shared with one, such as `?fbclid=…`, and few
    forward it. So False is remembered, and such redirects stay as fast as others.
    """
    if not may_forward_query(key):
        return False
    now, found = monotonic(), ShortUrl.objects.filter(key=key, forward_query=True).exists()
    if not found:
        if len(without_query) >= MOST_KEYS:
            without_query.clear()
        without_query[key] = now
    return found


def location(target_url: str) -> str | None:
    """Return the Location of a redirect; None for a target that Django has to refuse."""
    return location_unless(bans.known.domains, target_url)


@lru_cache(MOST_TARGETS)
def location_unless(banned: frozenset[str], target_url: str) -> str | None:
    try:
        if bans.banned(target_url, banned):
            return None
        found = validators.location(target_url)
    except ValidationError:
        return None
    return found if found.startswith(("https://", "http://")) else None
