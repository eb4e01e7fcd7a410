"""What can go wrong with the operations. The views say which HTTP status each one is."""

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta


class ShortUrlError(Exception):
    """The base of this app's own errors."""


class KeySpaceExhausted(ShortUrlError):
    """Every candidate key was taken.

    Takes the candidate keys, all of which were tried: keys.candidates() or a list. `attempts` maps
    a key length to the number of attempts made at that length; it is empty for an iterator, which
    has nothing left to tell.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        planned = getattr(keys, "plan", None)  # of random candidates, which would be drawn anew
        self.attempts = planned or dict(Counter(len(key) for key in keys))
        made = ", ".join(f"{count} of length {length}" for length, count in self.attempts.items())
        super().__init__(f"Every candidate key was taken{f'; tried {made}' if made else ''}.")


class KeyTaken(ShortUrlError):
    """A custom key that somebody already has, or, where `deleted`, once had."""

    def __init__(self, key: str, *, deleted: bool = False) -> None:
        super().__init__(key)
        self.key, self.deleted = key, deleted

    def __str__(self) -> str:
        why = ": it was deleted, and a deleted key never leads elsewhere" if self.deleted else ""
        return f"The key {self.key!r} is taken{why}."


class LeftOut(ShortUrlError):
    """Of short URLs that are made all or not at all, one that could have been made."""

    def __init__(self) -> None:
        super().__init__("Not created, because another one of the same request cannot be.")


class Gone(ShortUrlError):
    """A short URL that led somewhere, and does no more: it has expired, or is used up."""

    def __init__(self, key: str, state: str) -> None:
        self.key, self.state = key, state
        super().__init__(f"The short URL {key!r} {'has' if state == 'expired' else 'is'} {state}.")


class LimitTooLow(ShortUrlError):
    """A limit below the hits that were counted already."""

    def __init__(self, max_hits: int) -> None:
        super().__init__(
            f"The limit {max_hits:,} is below the hits that were counted: use a higher one."
        )


class Contended(ShortUrlError):
    """An optimistic strategy lost against other processes as often as it may try."""

    def __init__(self, key: str, attempts: int) -> None:
        self.key, self.attempts = key, attempts
        super().__init__(f"Gave up on {key!r} after {attempts} attempts: others were always first.")


class RowLocked(ShortUrlError):
    """Another session keeps the row of a short URL locked, and a hit cannot be counted."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"The row of {key!r} is locked.")


class KeyReused(ShortUrlError):
    """An Idempotency-Key that came with another request before."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"The Idempotency-Key {key!r} was sent with another request before.")


class InFlight(ShortUrlError):
    """A request that is repeated while the first one is still at work."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"The request with the Idempotency-Key {key!r} is still in progress.")


class QuotaExceeded(ShortUrlError):
    """A spender has used up what it may create in this period of time."""

    def __init__(self, spender: str, *, limit: int, period: timedelta) -> None:
        self.spender, self.limit, self.period = spender, limit, period
        super().__init__(f"{spender!r} has used up its quota of {limit:,} in {period}.")


class MoreThanQuota(ShortUrlError):
    """More links at once than there are in a whole quota, so that no waiting helps."""

    def __init__(self, links: int, limit: int, what: str) -> None:
        super().__init__(
            f"{links:,} links are more than the quota of {limit:,} {what}: send fewer at once."
        )


class TooManyCreates(ShortUrlError):
    """A quota is used up until its next period begins, in so many `seconds`.

    `what` is that of which there are only `limit`; `headers` say it all to programs.
    """

    def __init__(self, limit: int, what: str, *, seconds: int, headers: dict[str, str]) -> None:
        self.seconds, self.headers = seconds, headers
        units = ((3600, "hours"), (60, "minutes"), (1, "seconds"))
        length, unit = next(pair for pair in units if seconds >= 2 * pair[0] or pair[0] == 1)
        wait = f"{-(-seconds // length)} {unit}"
        super().__init__(f"The quota of {limit:,} {what} is used up. Try again in {wait}.")
