"""The strategies of delivering, right and wrong, in the order that tables show them."""

from collections.abc import Callable

from shorturl.models import LinkEvent
from shorturl.strategies.delivering import (
    advisory_lock,
    delete_returning,
    naive,
    select_for_update,
    skip_locked,
    update_skip_locked,
    watermark,
)
from shorturl.strategies.strategy import RIGHT, WRONG, Strategy, table

Deliver = Callable[[int, Callable[[LinkEvent], object]], bool]

# fmt: off
STRATEGIES: dict[str, Strategy[Deliver]] = table(
    Strategy("naive", naive.deliver, WRONG, "–",
        "SELECT, then UPDATE: two workers claim the same event"),
    Strategy("watermark", watermark.deliver, WRONG, "–",
        "all ids up to the largest: one can be committed after a larger one"),
    Strategy("delete_returning", delete_returning.deliver, WRONG, "–",
        "DELETE … RETURNING, then send: a crash between loses the event"),
    Strategy("select_for_update", select_for_update.deliver, RIGHT, "–",
        "a row lock while it sends: right, and one worker at a time"),
    Strategy("skip_locked", skip_locked.deliver, RIGHT, "–",
        "FOR UPDATE SKIP LOCKED: each worker has an event, and a transaction open while it sends"),
    Strategy("update_skip_locked", update_skip_locked.deliver, RIGHT, "–",
        "UPDATE … WHERE id = (SELECT … SKIP LOCKED): a lease of one minute"),
    Strategy("advisory_lock", advisory_lock.deliver, RIGHT, "–",
        "lock the link by name, and read again"),
)
