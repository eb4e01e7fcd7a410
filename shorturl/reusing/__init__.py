"""Every way to reuse a link: to return the owner's own to a target, and make one if there is none.

Each is a function `reuse(target_url, *, owner_id, create)` in a file of its own, which returns the
ShortUrl and whether it is new; `create` makes one. operations.reuse() is what an application calls.

The same target is the same text, character for character, as a link keeps it: whether two
addresses lead to the same page is known to their server alone. Of several links that are the
owner's and live, it is the oldest.
"""

from collections.abc import Callable
from typing import Protocol

from shorturl.models import ShortUrl
from shorturl.reusing import (
    advisory_lock,
    find_then_create,
    get_or_create,
    on_conflict,
    serializable,
)
from shorturl.strategies import Strategy, Verdict, table

RIGHT, WRONG = Verdict.RIGHT, Verdict.WRONG


class Reuse(Protocol):
    """The signature of every way to reuse."""

    def __call__(
        self, target_url: str, *, owner_id: int | None, create: Callable[[], ShortUrl]
    ) -> tuple[ShortUrl, bool]: ...


# fmt: off
STRATEGIES: dict[str, Strategy[Reuse]] = table(
    Strategy("find_then_create", find_then_create.reuse, WRONG, "–",
        "find if exists, else create: time of check to time of use"),
    Strategy("get_or_create", get_or_create.reuse, WRONG, "–",
        "Django's idiom without the unique constraint that it needs"),
    Strategy("on_conflict", on_conflict.reuse, RIGHT, "–",
        "claim the target by a unique index on its hash"),
    Strategy("advisory_lock", advisory_lock.reuse, RIGHT, "–",
        "lock the target by name"),
    Strategy("serializable", serializable.reuse, RIGHT, "–",
        "let PostgreSQL refuse the second one, and try again", nests=False),
)
