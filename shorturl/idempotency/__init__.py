"""Every way to answer a request once, however often it is sent with the same Idempotency-Key.

Each is a function `answer(caller, key, fingerprint, *, work)` in a file of its own. `work` does
what is asked for and returns the fields of its answer: `status`, `body` and `location`; what it
raises is raised, and is no answer. operations.answer() is what an application calls.
"""

from collections.abc import Callable
from typing import Any, Protocol

from shorturl.idempotency import (
    advisory_lock,
    insert_first,
    look_up_then_store,
)
from shorturl.models import KeptAnswer
from shorturl.strategies import Strategy, Verdict, table

RIGHT, WRONG = Verdict.RIGHT, Verdict.WRONG


class Answer(Protocol):
    """The signature of every way to answer."""

    def __call__(
        self, caller: str, key: str, fingerprint: str, *, work: Callable[[], dict[str, Any]]
    ) -> KeptAnswer: ...


# fmt: off
STRATEGIES: dict[str, Strategy[Answer]] = table(
    Strategy("look_up_then_store", look_up_then_store.answer, WRONG, "–",
        "look the key up, work, store the answer"),
    Strategy("insert_first", insert_first.answer, RIGHT, "–",
        "the key first, in the work's transaction"),
    Strategy("advisory_lock", advisory_lock.answer, RIGHT, "–",
        "lock the key by name, and tell others at once that it is in flight"),
)
