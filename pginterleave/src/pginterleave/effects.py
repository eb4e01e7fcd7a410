"""Which steps depend on each other, and which are independent: what partial-order reduction asks.

Two steps of two processes are independent when it makes no difference which one goes first. Their
effects decide. The effect of a step follows from its SQL, from the catalogue and from the earlier
steps of its process.
"""

import functools
from collections.abc import Sequence, Set
from typing import Any, Final, Literal, NamedTuple

from pginterleave import statements
from pginterleave.footprints import UNKNOWN, RowSets, Tables, overlap
from pginterleave.statement_shapes import shape

ENDS = frozenset({"COMMIT", "END", "ROLLBACK", "ABORT", "CLOSE"})  # of a transaction


class Effect(NamedTuple):
    """What a step does to other processes.

    A "local" step affects no other one. A "read" is a SELECT that is known to be plain, and a
    "write" locks or changes rows in a transaction, so that no SELECT of another process sees it
    before the "end" of the transaction. A "global" step may affect every other process.
    """

    kind: Literal["local", "read", "write", "end", "global"]
    reads: RowSets = ()
    writes: RowSets = ()  # of an end: those of its transaction


LOCAL: Final = Effect("local")
GLOBAL: Final = Effect("global")


@functools.lru_cache(maxsize=2**14)
def dependent(effect: Effect, other: Effect) -> bool:
    """Return whether it can make a difference which of two steps of two processes goes first."""
    first, second = sorted((effect, other))  # end, global, local, read, write
    kinds = first.kind, second.kind
    if "local" in kinds:
        return False
    if "global" in kinds:
        return True
    if first.kind == "end":
        return overlap(first.writes, (*second.reads, *second.writes))
    return kinds == ("write", "write") and overlap(first.writes, second.writes)


def effect(
    step: Any,
    earlier: Sequence[Any],
    *,
    serializable: bool,
    commits: bool,
    failed: bool,
    special: Set[str] = frozenset(),
    special_writes: Set[str] = frozenset(),
    tables: Tables | None = None,
    open_effects: Sequence[Effect] = (GLOBAL,),
) -> Effect:
    """Return the effect of the step that a process is about to take.

    Args:
        step: the step, with its `kind`, `sql` and `params`.
        earlier: the steps that the process has taken before, in this schedule.
        serializable: whether its transactions are SERIALIZABLE by default.
        commits: whether what it writes is committed in the same step.
        failed: whether its last step ended in an error of PostgreSQL.
        special: the names that stand for something else than a plain table.
        special_writes: the names that do so in statements that write.
        tables: what the catalogue says; None if its transactions are not READ COMMITTED, in which
            a snapshot decides about all tables at once.
        open_effects: of the steps of the transaction that is open.
    """
    kind, sql = step.kind, step.sql
    if statements.may_be_several(sql):
        return GLOBAL
    texts = [f"{each.sql} {each.params}".upper() for each in earlier]
    # Which transactions PostgreSQL aborts to keep them serializable depends on the order of reads.
    serializable = serializable or any("SERIALIZABLE" in text for text in texts)
    if any("ISOLATION" in text or "REPEATABLE" in text for text in texts):
        tables = None
    footprint = tables.footprint(sql, step.params) if tables else UNKNOWN
    if statements.only_reads(sql, special) and not statements.has_clock_text(f"{step.params}"):
        return GLOBAL if serializable else Effect("read", footprint.reads)
    if kind in ("INSERT", "UPDATE", "DELETE") or (tables and _locks_rows(sql)):
        plain = statements.calls_only_pure(sql) and not statements.uses(
            sql, special | special_writes
        )
        return Effect("write", *footprint) if plain and not (commits or serializable) else GLOBAL
    if statements.sets_isolation_level(sql):
        return LOCAL  # the snapshot is taken by the first query, not here
    if kind in ("SAVEPOINT", "RELEASE"):
        return LOCAL  # who waits for a subtransaction goes on to wait for the whole transaction
    if failed and _error_has_undone_all(kind, sql, earlier):
        return LOCAL
    ends = kind in ENDS and sql.strip(" ;\n").upper() == kind != "CLOSE"
    if ends and tables and not serializable and GLOBAL not in open_effects:
        places = {place for each in open_effects for place in each.writes}
        return Effect("end", (), tuple(sorted(places)))
    return GLOBAL


def _locks_rows(sql: str) -> bool:
    """Whether it is a SELECT that locks rows of a table, and does nothing else."""
    known = shape(sql)
    return (
        known is not None and known.kind == "SELECT" and known.locks and statements.locks_only(sql)
    )


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
