"""Every way to count a hit and record its visit: safe ones and exhibits.

Each is a function `record(key, visit)` in a file of its own, which returns the ShortUrl or raises
ShortUrl.DoesNotExist. operations.follow() is what an application calls.
"""

from typing import Protocol

from shorturl.models import ShortUrl
from shorturl.recording_visits import (
    append_only,
    combined,
    get_then_create,
    one_transaction,
    second_transaction,
    upsert,
)
from shorturl.resolving.combined import Batches
from shorturl.strategies import Strategy, Verdict, table
from shorturl.visits import Visit

RIGHT, WRONG = Verdict.RIGHT, Verdict.WRONG


class Record(Protocol):
    """The signature of every way to record."""

    def __call__(self, key: str, visit: Visit) -> ShortUrl: ...


# fmt: off
STRATEGIES: dict[str, Strategy[Record]] = table(
    Strategy("get_then_create", get_then_create.record, WRONG, "–",
        "get the hour's row, else create it: time of check to time of use"),
    Strategy("second_transaction", second_transaction.record, WRONG, "–",
        "the visit in a transaction of its own, after the count: a crash between loses it"),
    Strategy("one_transaction", one_transaction.record, RIGHT, "–",
        "UPDATE and upsert in one transaction: two statements, committed together"),
    Strategy("upsert", upsert.record, RIGHT, "–",
        "UPDATE and upsert in one statement, a data-modifying WITH"),
    Strategy("append_only", append_only.record, RIGHT, "–",
        "a row for each visit, added up later"),
    Strategy("combined", combined.record, RIGHT, "–",
        "one statement for all visits that arrive while another is under way",
        shared=Batches, together=combined.record_together),
)
