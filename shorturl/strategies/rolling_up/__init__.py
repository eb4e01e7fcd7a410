"""Every strategy that rolls visits up into longer periods, right and wrong.

Each file has one function `roll_up(unit, into, before)`. It takes the rows of a unit ("h", "d", or
None for single visits) that begin before a time, adds them up in rows of the unit `into`, and
returns how many rows it took. Applications call roll_up_visits() of shorturl.visits.roll_up.
"""

from collections.abc import Callable
from datetime import datetime

from shorturl.strategies import RIGHT, WRONG, Strategy, table
from shorturl.strategies.rolling_up import (
    batches,
    by_key,
    delete_returning,
    select_then_delete,
    watermark,
)

RollUp = Callable[[str | None, str, datetime], int]

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
