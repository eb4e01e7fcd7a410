"""The strategies of reusing, right and wrong, in the order that tables show them."""

from collections.abc import Callable
from typing import Protocol

from shorturl.models import ShortUrl
from shorturl.strategies.reusing import (
    advisory_lock,
    find_then_create,
    get_or_create,
    on_conflict,
    serializable,
)
from shorturl.strategies.strategy import RIGHT, WRONG, Strategy, table


class Reuse(Protocol):
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
        "let PostgreSQL refuse the second one, and try again"),
)
