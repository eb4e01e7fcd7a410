"""The strategies of idempotency, right and wrong, in the order that tables show them."""

from collections.abc import Callable
from typing import Any, Protocol

from shorturl.models import IdempotencyRecord
from shorturl.strategies.idempotency import advisory_lock, insert_first, look_up_then_store
from shorturl.strategies.strategy import RIGHT, WRONG, Strategy, table


class Answer(Protocol):
    def __call__(
        self, caller: str, key: str, fingerprint: str, *, work: Callable[[], dict[str, Any]]
    ) -> IdempotencyRecord: ...


# fmt: off
STRATEGIES: dict[str, Strategy[Answer]] = table(
    Strategy("look_up_then_store", look_up_then_store.answer, WRONG, "–",
        "look the key up, work, store the answer"),
    Strategy("insert_first", insert_first.answer, RIGHT, "–",
        "the key first, in the work's transaction"),
    Strategy("advisory_lock", advisory_lock.answer, RIGHT, "–",
        "lock the key by name, and refuse a request while another one is in flight"),
)
