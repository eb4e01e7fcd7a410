"""The strategies of recording visits, right and wrong, in the order that tables show them."""

from typing import Protocol

from shorturl.models import ShortUrl, Visit
from shorturl.strategies.recording_visits import (
    append_only,
    combined,
    get_then_create,
    one_transaction,
    second_transaction,
    upsert,
)
from shorturl.strategies.strategy import RIGHT, WRONG, Strategy, table


class Record(Protocol):
    def __call__(self, key: str, visit: Visit) -> ShortUrl: ...


# fmt: off
STRATEGIES: dict[str, Strategy[Record]] = table(
    Strategy("get_then_create", get_then_create.record, WRONG, "–",
        "get the hour's row, else create it: time of check to time of use"),
    Strategy("second_transaction", second_transaction.record, WRONG, "–",
        "the visit in a second transaction: a crash between the two loses it"),
    Strategy("one_transaction", one_transaction.record, RIGHT, "–",
        "UPDATE and upsert in one transaction: two statements, committed together"),
    Strategy("upsert", upsert.record, RIGHT, "–",
        "UPDATE and upsert in one statement, a data-modifying WITH"),
    Strategy("append_only", append_only.record, RIGHT, "–",
        "a row for each visit, added up later"),
    Strategy("combined", combined.record, RIGHT, "–",
        "one statement for all visits that wait, and a row for each key, added up later"),
)
