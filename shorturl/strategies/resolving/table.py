"""The strategies of resolving, right and wrong, in the article's order."""

from collections.abc import Callable

from shorturl.models import ShortUrl
from shorturl.strategies.resolving import (
    advisory_lock,
    append_only,
    atomic_only,
    combined,
    compare_and_swap,
    f_expression,
    f_expression_full_save,
    in_memory,
    naive,
    repeatable_read,
    select_for_update,
    slotted_counter,
    update_returning,
)
from shorturl.strategies.strategy import RIGHT, WRONG, Strategy, Verdict, table

WITHOUT_CONDITION = Verdict.RIGHT_WITHOUT_CONDITION
Resolve = Callable[[str], ShortUrl]

# fmt: off
STRATEGIES: dict[str, Strategy[Resolve]] = table(
    Strategy("naive", naive.resolve, WRONG, "⛔ 3",
        "read, add one, write: the lost update"),
    Strategy("atomic_only", atomic_only.resolve, WRONG, "–",
        "the same inside atomic(): a transaction is not a lock"),
    Strategy("select_for_update", select_for_update.resolve, RIGHT, "✅ 3",
        "a row lock: right, and all hits queue"),
    Strategy("f_expression", f_expression.resolve, WITHOUT_CONDITION, "✅ 4",
        "increment in the database, save only the counter"),
    Strategy("f_expression_full_save", f_expression_full_save.resolve, WRONG, "–",
        "counts right, and undoes a concurrent edit"),
    Strategy("update_returning", update_returning.resolve, RIGHT, "✅ 5",
        "UPDATE … RETURNING: one statement does it all"),
    Strategy("compare_and_swap", compare_and_swap.resolve, RIGHT, "–",
        "optimistic: write only if the counter is unchanged, or try again"),
    Strategy("repeatable_read", repeatable_read.resolve, RIGHT, "–",
        "snapshot isolation, and a retry when PostgreSQL refuses"),
    Strategy("advisory_lock", advisory_lock.resolve, WITHOUT_CONDITION, "–",
        "lock the key by name"),
    Strategy("combined", combined.resolve, RIGHT, "–",
        "one statement for all hits that wait, of one key or of several"),
    Strategy("slotted_counter", slotted_counter.resolve, WITHOUT_CONDITION, "–",
        "many rows for one counter: a hit adds to a random one"),
    Strategy("append_only", append_only.resolve, WITHOUT_CONDITION, "–",
        "a row for each hit, added up later"),
    Strategy("in_memory", in_memory.resolve, WRONG, "–",
        "counted in memory and written later: a crash loses acknowledged hits",
        note="Its statements do not race. An exploration shows that it answers before it counts: "
        "it ends before the write half a second later, as a killed process does."),
)
