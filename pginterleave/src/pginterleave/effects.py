"""Which steps depend on each other, and which are independent: what partial-order reduction asks.

Two steps of two processes are independent when it makes no difference which one goes first. That
is taken from their effects, and the effect of a step from its SQL and from where it stands.
"""

from collections.abc import Sequence, Set
from typing import Any, Final, Literal

from pginterleave import statements

Effect = Literal["local", "read", "write", "global"]
LOCAL: Final = "local"  # affects no other process
READ: Final = "read"  # a SELECT that is known to be plain
WRITE: Final = "write"  # inside a transaction, so that no SELECT of another process sees it
GLOBAL: Final = "global"  # may affect every other process


def dependent(effect: Effect, other: Effect) -> bool:
    """Return whether it can make a difference which of two steps of two processes goes first."""
    effects = (effect, other)
    return not (LOCAL in effects or (READ in effects and GLOBAL not in effects))


def effect(
    step: Any,
    earlier: Sequence[Any],
    *,
    serializable: bool,
    commits: bool,
    failed: bool,
    special: Set[str] = frozenset(),
    special_writes: Set[str] = frozenset(),
) -> Effect:
    """Return the effect of the step that a process is about to take.

    Args:
        step: the step, with its `kind`, `sql` and `params`.
        earlier: the steps that the process has taken before, in this schedule.
        serializable: whether its transactions are SERIALIZABLE by default.
        commits: whether what it writes is committed in the same step.
        failed: whether its last step ended in an error of PostgreSQL.
        special: the names that stand for something else than a plain table.
        special_writes: those that do so for whoever writes.
    """
    kind, sql = step.kind, step.sql
    if statements.may_be_several(sql):
        return GLOBAL
    # Which transactions PostgreSQL aborts to keep them serializable depends on who reads when.
    serializable = serializable or any(
        "SERIALIZABLE" in f"{each.sql} {each.params}".upper() for each in earlier
    )
    if statements.only_reads(sql, special) and not statements.has_clock_text(f"{step.params}"):
        return GLOBAL if serializable else READ
    if kind in ("INSERT", "UPDATE", "DELETE"):
        plain = statements.calls_only_pure(sql) and not statements.uses(
            sql, special | special_writes
        )
        return WRITE if plain and not (commits or serializable) else GLOBAL
    if statements.sets_isolation_level(sql):
        return LOCAL  # the snapshot is taken by the first query, not here
    if kind in ("SAVEPOINT", "RELEASE"):
        return LOCAL  # who waits for a subtransaction goes on to wait for the whole transaction
    return LOCAL if failed and _error_has_undone_all(kind, sql, earlier) else GLOBAL


def _error_has_undone_all(kind: str, sql: str, earlier: Sequence[Any]) -> bool:
    """Whether a rollback has nothing left to undo: an error of PostgreSQL has done it already."""
    if any(
        "SAVEPOINT" in each.sql.upper() and statements.may_be_several(each.sql) for each in earlier
    ):
        return False  # which savepoints there are is not known
    savepoints = [
        statements.savepoint_name(each.sql) for each in earlier if each.kind == "SAVEPOINT"
    ]
    if not savepoints:
        return sql == "ROLLBACK"
    if kind != "ROLLBACK TO":
        return False
    # It has undone all since the last savepoint, if that is the only one of this name.
    name = statements.savepoint_name(sql)
    return savepoints[-1] == name and savepoints.count(name) == 1
