"""The strategies of creating, right and wrong, in the article's order."""

from collections.abc import Iterable
from typing import Any, Protocol

from shorturl.models import ShortUrl
from shorturl.strategies.creating import (
    advisory_lock,
    check_first,
    forgiveness,
    get_or_create,
    naive,
    on_conflict,
    permuted_sequence,
    savepoint,
    table_lock,
    timestamp_key,
)
from shorturl.strategies.strategy import RIGHT, WRONG, Strategy, Verdict, table


class Create(Protocol):
    def __call__(self, target_url: str, *, keys: Iterable[str], **values: Any) -> ShortUrl: ...


# fmt: off
STRATEGIES: dict[str, Strategy[Create]] = table(
    Strategy("naive", naive.create, WRONG, "⛔ 1",
        "ignores collisions"),
    Strategy("check_first", check_first.create, WRONG, "⛔ 2",
        "look before you leap: time of check to time of use"),
    Strategy("table_lock", table_lock.create, RIGHT, "✅ 1",
        "lock the whole table: right, and one create at a time"),
    Strategy("forgiveness", forgiveness.create, Verdict.RIGHT_ALONE, "✅ 2",
        "retry on IntegrityError, without a savepoint"),
    Strategy("savepoint", savepoint.create, RIGHT, "✅ 2",
        "retry on IntegrityError, each attempt in its own atomic block"),
    Strategy("on_conflict", on_conflict.create, RIGHT, "–",
        "INSERT … ON CONFLICT DO NOTHING: one statement, no exception"),
    Strategy("get_or_create", get_or_create.create, WRONG, "–",
        "Django's idiom without a look at `created`: another user's link, silently"),
    Strategy("timestamp_key", timestamp_key.create, WRONG, "–",
        "the clock as the key"),
    Strategy("advisory_lock", advisory_lock.create, RIGHT, "–",
        "lock the key, not the table"),
    Strategy("permuted_sequence", permuted_sequence.create, RIGHT, "–",
        "no collision by construction: a sequence, shuffled"),
)
