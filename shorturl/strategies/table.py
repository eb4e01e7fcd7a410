"""The strategies of all operations, in the article's order; an operation is a folder here.

Each file says in constants whether it is right (VERDICT), what it shows (SHOWS) and, where the
article has it, its step (STEP).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any


class Verdict(Enum):
    """Whether a strategy is correct when several processes run it at once."""

    RIGHT = "right"
    WRONG = "wrong"
    RIGHT_WITHOUT_CONDITION = "right, unless a link has a limit or an expiry"
    RIGHT_ALONE = "right, unless a transaction is open"


@dataclass(frozen=True)
class Strategy:
    """One way to write an operation; `note` is shown beside its explorations."""

    name: str
    function: Callable[..., Any]
    verdict: Verdict
    step: str  # "–" where the article has none
    shows: str
    note: str = ""


def table(*strategies: Strategy) -> dict[str, Strategy]:
    """Return the strategies by name, in the order given."""
    return {strategy.name: strategy for strategy in strategies}


def read_strategy(operation: str, function: str, name: str) -> Strategy:
    """Return the strategy of the file `name`, with the function and the constants of the file."""
    module = import_module(f"shorturl.strategies.{operation}.{name}")
    return Strategy(
        name=name,
        function=getattr(module, function),
        verdict=Verdict(module.VERDICT),
        step=getattr(module, "STEP", "–"),
        shows=module.SHOWS,
        note=getattr(module, "NOTE", ""),
    )


# By the operation's folder and the function of each file: the files.
FILES = {
    ("creating", "create"): (
        "naive check_first table_lock forgiveness savepoint on_conflict get_or_create "
        "timestamp_key advisory_lock permuted_sequence"
    ),
    ("resolving", "resolve"): (
        "naive atomic_only select_for_update f_expression f_expression_full_save "
        "update_returning compare_and_swap repeatable_read advisory_lock "
        "slotted_counter append_only in_memory"
    ),
    ("reusing", "reuse"): "find_then_create get_or_create on_conflict advisory_lock serializable",
    ("idempotency", "answer"): "look_up_then_store insert_first advisory_lock",
    ("spending", "spend"): (
        "count_then_insert read_modify_write conditional_update row_lock reservation"
    ),
    ("recording_visits", "record"): "get_then_create second_transaction upsert combined",
    ("rolling_up", "roll_up"): "insert_then_delete delete_returning batches",
    ("delivering", "deliver"): (
        "naive watermark delete_returning select_for_update skip_locked update_skip_locked "
        "advisory_lock"
    ),
}
STRATEGIES: dict[str, dict[str, Strategy]] = {
    operation: table(*(read_strategy(operation, function, name) for name in names.split()))
    for (operation, function), names in FILES.items()
}
