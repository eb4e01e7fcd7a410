"""The errors that the operations raise. The views map each of them to an HTTP status."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta


class ShortUrlError(Exception):
    pass


class KeySpaceExhausted(ShortUrlError):
    """Every candidate key was taken: one of keys.candidates(), or of a list.

    `attempts` maps a key length to the number of attempts; for an exhausted iterator it is empty.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        planned = getattr(keys, "plan", None)  # iterating keys.candidates() would draw new keys
        self.attempts = planned or dict(Counter(len(key) for key in keys))
        made = ", ".join(f"{count} of length {length}" for length, count in self.attempts.items())
        super().__init__(f"Every candidate key was taken{f'; tried {made}' if made else ''}.")


class KeyTaken(ShortUrlError):
    """A custom key belongs to an existing link, or, if `deleted`, to a deleted one."""

    def __init__(self, key: str, *, deleted: bool = False) -> None:
        super().__init__(key)
        self.key, self.deleted = key, deleted

    def __str__(self) -> str:
        why = ": it was deleted, and a deleted key is never reused" if self.deleted else ""
        return f"The key {self.key!r} is taken{why}."


class Gone(ShortUrlError):
    """A short URL has expired or is used up."""

    def __init__(self, key: str, state: str) -> None:
        self.key, self.state = key, state
        super().__init__(f"The short URL {key!r} {'has' if state == 'expired' else 'is'} {state}.")


class NotForPrograms(ShortUrlError):
    """A bot has requested a short URL with a limit, of which only people use something up."""

    def __init__(self, key: str) -> None:
        super().__init__(f"The short URL {key!r} has a limit, and is not for programs.")


class TargetBanned(ShortUrlError):
    """A target is in a banned domain."""

    def __init__(self, target_url: str, domain: str) -> None:
        super().__init__(
            f"{target_url!r} leads to {domain}, which is banned here: use another target."
        )


class LinksRefused(ShortUrlError):
    """Nothing was created, because of some links of several; `errors` maps the index of each."""

    def __init__(self, errors: Mapping[int, KeyTaken | TargetBanned]) -> None:
        self.errors = errors
        super().__init__(" ".join(map(str, errors.values())))


class LimitTooLow(ShortUrlError):
    def __init__(self, max_hits: int) -> None:
        super().__init__(
            f"The limit {max_hits:,} is below the hits that were counted: use a higher one."
        )


class Contended(ShortUrlError):
    """An optimistic strategy has failed in all of its attempts."""

    def __init__(self, key: str, attempts: int) -> None:
        super().__init__(
            f"Gave up on {key!r} after {attempts} attempts: others changed it each time."
        )


class RowLocked(ShortUrlError):
    """Another transaction has locked the row of a short URL for longer than lock_timeout."""

    def __init__(self, key: str) -> None:
        super().__init__(f"The row of {key!r} is locked.")


class KeyReused(ShortUrlError):
    def __init__(self, key: str) -> None:
        super().__init__(f"The Idempotency-Key {key!r} was sent with another request before.")


class InFlight(ShortUrlError):
    def __init__(self, key: str) -> None:
        super().__init__(f"The request with the Idempotency-Key {key!r} is still in progress.")


class QuotaExceeded(ShortUrlError):
    """A spender has used up a quota of the current period."""

    def __init__(self, spender: str, *, limit: int, period: timedelta) -> None:
        self.period = period
        super().__init__(f"{spender!r} has used up its quota of {limit:,} in {period}.")


class MoreThanQuota(ShortUrlError):
    """A request has more links than the whole quota, so waiting does not help."""

    def __init__(self, links: int, limit: int, what: str) -> None:
        super().__init__(
            f"{links:,} links are more than the quota of {limit:,} {what}: send fewer at once."
        )


class TooManyCreates(ShortUrlError):
    """The quota of a day is used up, until the next day begins in `seconds`.

    `what` names the quota for people. `headers` are those of a 429, by
    draft-ietf-httpapi-ratelimit-headers-10.
    """

    def __init__(self, limit: int, what: str, *, seconds: int) -> None:
        self.headers = {
            "Retry-After": str(seconds),
            "RateLimit-Policy": f'"day";q={limit};w=86400',
            "RateLimit": f'"day";r=0;t={seconds}',
        }
        units = ((3600, "hours"), (60, "minutes"), (1, "seconds"))
        length, unit = next(pair for pair in units if seconds >= 2 * pair[0] or pair[0] == 1)
        wait = f"{-(-seconds // length)} {unit}"
        super().__init__(f"The quota of {limit:,} {what} is used up. Try again in {wait}.")
