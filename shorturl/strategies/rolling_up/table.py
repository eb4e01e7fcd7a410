"""The strategies of rolling up, right and wrong, in the order that tables show them."""

from collections.abc import Callable
from datetime import datetime

from shorturl.strategies.rolling_up import (
    batches,
    by_key,
    delete_returning,
    select_then_delete,
    watermark,
)
from shorturl.strategies.strategy import RIGHT, WRONG, Strategy, table

RollUp = Callable[[str, str, datetime], int]

# fmt: off
STRATEGIES: dict[str, Strategy[RollUp]] = table(
    Strategy("watermark", watermark.roll_up, WRONG, "–",
        "all ids up to the largest: one can be committed after a larger one"),
    Strategy("select_then_delete", select_then_delete.roll_up, WRONG, "–",
        "read, add up, delete what was read: the lost update"),
    Strategy("delete_returning", delete_returning.roll_up, RIGHT, "–",
        "DELETE … RETURNING into an upsert: one statement"),
    Strategy("batches", batches.roll_up, RIGHT, "–",
        "the same in batches, which skip rows that other transactions have locked"),
    Strategy("by_key", by_key.roll_up, RIGHT, "–",
        "one link after the other: a short transaction for each"),
)
