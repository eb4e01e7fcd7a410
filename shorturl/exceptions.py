"""The errors of the operations, and how the views answer each of them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import ceil
from typing import NamedTuple


class Fault(NamedTuple):
    """What is wrong with an input."""

    field: str
    code: str  # for programs
    message: str  # for people


class ShortUrlError(Exception):
    """An error whose text is a sentence; `advice` is a sentence on what to do."""

    text = ""  # a template for the arguments
    status = 503
    field, code = "", ""  # the input that is wrong, and a word for programs
    advice = "Try again."
    headers: Mapping[str, str] = {"Retry-After": "5"}

    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(self.text.format(*arguments, **named))

    @property
    def message(self) -> str:
        return f"{self} {self.advice}".rstrip()

    @property
    def faults(self) -> list[Fault]:
        return [Fault(self.field, self.code, self.message)] if self.field else []


class InputError(ShortUrlError):
    """An error of the input."""

    status = 422
    advice = ""
    headers: Mapping[str, str] = {}


class KeySpaceExhausted(ShortUrlError):
    """Every candidate key was taken; `attempts` maps key lengths to the numbers of attempts."""

    text = "Every candidate key was taken{}."
    advice = "Choose a custom key, or try again."

    def __init__(self, keys: Iterable[str]) -> None:
        self.attempts = Counter(map(len, keys))
        numbers = [f"{count} of length {length}" for length, count in self.attempts.items()]
        super().__init__(f"; tried {', '.join(numbers)}" if numbers else "")


class KeyTaken(InputError):
    """A custom key belongs to an existing link, or, if `deleted`, to a deleted one."""

    status, field, code = 409, "key", "taken"
    text = "The key {!r} is taken{}."
    advice = "Choose another key, or none."

    def __init__(self, key: str, *, deleted: bool = False) -> None:
        why = ": it was deleted, and a deleted key is never reused" if deleted else ""
        super().__init__(key, why)


class Gone(ShortUrlError):
    """A short URL has expired or is used up."""

    text = "The short URL {!r} {} {}."

    def __init__(self, key: str, state: str) -> None:
        super().__init__(key, "has" if state == "expired" else "is", state)
        self.key, self.state = key, state


class NotForPrograms(ShortUrlError):
    """A bot has requested a short URL with a limit, which only people use up."""

    text = "The short URL {!r} has a limit, and is not for programs."


class TargetBanned(InputError):
    field, code = "target_url", "banned"
    text = "{!r} leads to {}, which is banned here: use another target."


class LinksRefused(InputError):
    """Nothing was created, because of some links of several; `errors` has them by their index."""

    text = "{}"

    def __init__(self, errors: Mapping[int, KeyTaken | TargetBanned]) -> None:
        super().__init__(" ".join(map(str, errors.values())))
        self.errors = errors
        self.status = max(error.status for error in errors.values())  # 422 before 409

    @property
    def faults(self) -> list[Fault]:
        return [
            fault._replace(field=f"links.{index}.{fault.field}")
            for index, error in self.errors.items()
            for fault in error.faults
        ]


class LimitTooLow(InputError):
    field, code = "max_hits", "too_low"
    text = "The limit {:,} is below the hits that were counted: use a higher limit."


class RangeTooLong(InputError):
    """Adding up the visits of some days takes longer than a statement may."""

    field, code = "from", "too_many_visits"
    text = "Adding up the visits of {:,} days takes too long: choose fewer, such as {}."


class Contended(ShortUrlError):
    """An optimistic strategy has failed in all of its attempts."""

    text = "Gave up on {!r} after {} attempts: others changed it each time."


class RowLocked(ShortUrlError):
    """Another transaction has locked the row of a short URL for longer than lock_timeout."""

    text = "The row of {!r} is locked."


class KeyReused(InputError):
    field, code = "Idempotency-Key", "reused"
    text = "The Idempotency-Key {!r} was sent with another request before."
    advice = "Send this with another key."


class InFlight(InputError):
    status, field, code = 409, "Idempotency-Key", "in_progress"
    text = "The request with the Idempotency-Key {!r} is still in progress."
    advice = "Send the request again in a moment."


class QuotaExceeded(ShortUrlError):
    """A spender has used up a quota of the current period."""

    text = "{!r} has used up its quota of {limit:,} in {period}."


class MoreThanQuota(InputError):
    """A request has more links than the whole quota, so waiting does not help."""

    field, code = "links", "over_quota"
    text = "{:,} links are more than the quota of {}: send fewer at once."


class TooManyCreates(ShortUrlError):
    """The quota of a day is used up, until the next day begins in `seconds`.

    The headers are those of draft-ietf-httpapi-ratelimit-headers-10.
    """

    status = 429
    text = "The quota of {} is used up. Try again in {}."
    advice = ""

    def __init__(self, limit: int, quota: str, *, seconds: int) -> None:
        self.headers = {
            "Retry-After": str(seconds),
            "RateLimit-Policy": f'"day";q={limit};w=86400',
            "RateLimit": f'"day";r=0;t={seconds}',
        }
        minutes = ceil(seconds / 60)
        wait = counted(minutes, "minute") if minutes <= 60 else counted(ceil(minutes / 60), "hour")
        super().__init__(quota, wait)


def counted(number: int, noun: str) -> str:
    """Return such as "1 link" and "2,000 links"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
