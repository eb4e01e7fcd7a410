"""Following a link: count the hit, and record its visit.

Django's view counts one hit; the event loop (project/serving) counts all hits that wait by the same
statements, those of the strategy `combined`.
"""

from django.conf import settings
from django.db import OperationalError

from shorturl.exceptions import Contended, Gone, NotForPrograms, RowLocked
from shorturl.models import LinkState, ShortUrl, Visit
from shorturl.outages import LOCK_NOT_AVAILABLE, driver_error
from shorturl.strategies.recording_visits import combined


def headers_of_visits() -> list[str]:
    """Return the names in the WSGI environ on which a visit depends."""
    names = ["HTTP_USER_AGENT"]
    if settings.SHORTURL_VISITS:
        names.append("HTTP_REFERER")
    if settings.SHORTURL_GEOIP:
        names.append("HTTP_X_FORWARDED_FOR")
    return names


def follow(key: str, visit: Visit) -> ShortUrl:
    """Count a visit, and return the short URL of `key`.

    Raises ShortUrl.DoesNotExist when no short URL has the key, or it was deleted; Gone when it has
    expired or is used up; NotForPrograms for a bot's visit to a link with a limit; RowLocked when
    another transaction keeps the row locked.
    """
    try:
        return combined.record(key, visit, keep=settings.SHORTURL_VISITS)
    except ShortUrl.DoesNotExist:
        short_url = look_up(key)
    except OperationalError as error:
        if driver_error(error, LOCK_NOT_AVAILABLE):
            raise RowLocked(key) from error
        raise
    # The link is live, and yet the visit was not counted.
    if visit.is_bot and short_url.max_hits:
        raise NotForPrograms(key)
    raise Contended(key, 1)  # after one attempt: the link has become live meanwhile


def look_up(key: str) -> ShortUrl:
    """Return the short URL of `key` without counting a hit; raise DoesNotExist or Gone."""
    short_url = ShortUrl.objects.with_state().get(key=key, deleted_at=None)
    if short_url.state != LinkState.LIVE:
        raise Gone(key, short_url.state)
    return short_url
