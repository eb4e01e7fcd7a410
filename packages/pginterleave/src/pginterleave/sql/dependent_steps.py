"""Which steps depend on each other, and which certainly wait, for partial-order reduction.

Two steps of two processes are independent when it makes no difference which one goes first. Their
effects decide, which follow from the SQL, the catalogue and the earlier steps of the process.

A claim says which rows a process has locked, and which row its next step certainly waits for. In
READ COMMITTED, such a wait for one row by a unique column leads to the same state as if the
statement were sent after the end of the other transaction, unless that gives the column's value to
another row. So it need not run.
"""

import functools
from collections.abc import Sequence, Set
from typing import Any, Final, Literal, NamedTuple

from pginterleave.sql import statements
from pginterleave.sql.rows_touched import EVERYWHERE, UNKNOWN, RowSet, RowSets, Tables, do_overlap
from pginterleave.sql.single_row import find_shape

ENDS = frozenset({"COMMIT", "END", "ROLLBACK", "ABORT", "CLOSE"})  # of a transaction


class Effect(NamedTuple):
    """How a step affects other processes.

    A "local" step affects no other process. A "read" is a plain SELECT. A "write" locks or changes
    rows in a transaction: no SELECT of another process sees it before the "end" of the transaction.
    A "global" step may affect every other process.
    """

    kind: Literal["local", "read", "write", "end", "global"]
    reads: RowSets = ()
    writes: RowSets = ()  # for an end: the writes of its transaction


LOCAL: Final = Effect("local")
GLOBAL: Final = Effect("global")
TakenStep = tuple[Any, Effect]  # a step with its effect


@functools.lru_cache(maxsize=2**14)
def are_dependent(effect: Effect, other: Effect) -> bool:
    """Return whether it can make a difference which of two steps of two processes goes first."""
    first, second = sorted((effect, other))  # end, global, local, read, write
    kinds = first.kind, second.kind
    if "local" in kinds:
        return False
    if "global" in kinds:
        return True
    if first.kind == "end":
        return do_overlap(first.writes, (*second.reads, *second.writes))
    # A read sees no write of an open transaction, and two reads do not affect each other.
    return kinds == ("write", "write") and do_overlap(first.writes, second.writes)


def find_effect(
    step: Any,  # with its `kind`, `sql` and `params`
    earlier: Sequence[TakenStep],  # what the process has taken before, in this schedule
    *,
    serializable: bool,  # whether its transactions are SERIALIZABLE by default
    commits: bool,  # whether the step commits its own writes
    failed: bool,  # whether the last step of the process ended in an error of PostgreSQL
    special: Set[str],  # the names that do not stand for a plain table
    special_writes: Set[str],  # those that do not stand for one in statements that write
    tables: Tables | None,  # None above READ COMMITTED, with one snapshot in a transaction
) -> Effect:
    """Return the effect of the step that a process is about to take."""
    kind = step.kind
    sql = step.sql
    # Every step that is not known to affect others less is global.
    if statements.may_have_several_statements(sql):
        return GLOBAL
    texts = [f"{other.sql} {other.params}".upper() for other, _ in earlier]
    # Which transactions PostgreSQL aborts to keep them serializable depends on the order of reads.
    serializable = serializable or any("SERIALIZABLE" in text for text in texts)
    if any("ISOLATION" in text or "REPEATABLE" in text for text in texts):
        tables = None
    footprint = tables.find_footprint(sql, step.params) if tables else UNKNOWN
    if statements.is_plain_select(sql, special) and not statements.has_clock_text(f"{step.params}"):
        return GLOBAL if serializable else Effect("read", footprint.reads)
    shape = find_shape(sql) if tables else None
    is_locking_select = bool(shape and shape.kind == "SELECT" and shape.locks)
    is_locking_select = is_locking_select and statements.is_plain_locking_select(sql)
    if kind in ("INSERT", "UPDATE", "DELETE") or is_locking_select:
        if commits or serializable or not statements.has_only_pure_calls(sql):
            return GLOBAL
        if statements.has_any_name(sql, special | special_writes):
            return GLOBAL
        return Effect("write", footprint.reads, footprint.writes)
    if statements.SETS_ISOLATION.fullmatch(sql):
        return LOCAL  # the snapshot is taken by the first query, not here
    if kind in ("SAVEPOINT", "RELEASE"):
        return LOCAL  # a wait for a subtransaction goes on until the whole transaction ends
    if failed and _has_error_undone_all(kind, sql, [other for other, _ in earlier]):
        return LOCAL
    is_plain_end = kind in ENDS - {"CLOSE"} and sql.strip(" ;\n").upper() == kind
    effects = [effect for _, effect in list_steps_of_open_transaction(earlier)]
    if is_plain_end and tables and not serializable and GLOBAL not in effects:
        writes = set().union(*(effect.writes for effect in effects))
        return Effect("end", writes=tuple(sorted(writes)))
    return GLOBAL


def _has_error_undone_all(kind: str, sql: str, earlier: Sequence[Any]) -> bool:
    """Whether a rollback has nothing left to undo, because an error has already undone it."""
    about_savepoints = [other for other in earlier if "SAVEPOINT" in other.sql.upper()]
    if any(statements.may_have_several_statements(other.sql) for other in about_savepoints):
        return False  # the savepoints are not known
    setting = [other.sql for other in about_savepoints if other.kind == "SAVEPOINT"]
    savepoints = [statements.find_savepoint_name(text) for text in setting]
    if not savepoints:
        return sql == "ROLLBACK"
    if kind != "ROLLBACK TO":
        return False
    # The error has undone everything since the last savepoint, if no other has the same name.
    name = statements.find_savepoint_name(sql)
    return savepoints[-1] == name and savepoints.count(name) == 1


class Hold(NamedTuple):
    """A row that a transaction has locked."""

    row: RowSet
    text: str  # the statement that locked the row, if the same statement sent again would wait
    harmless: bool  # whether a wait for the row ends as if it had begun later


class Claim(NamedTuple):
    """The row that a process wants to lock next, and the rows that it has locked."""

    wants: RowSet | None = None
    exact: bool = False  # whether the statement has no further condition on the row
    text: str = ""
    holds: tuple[Hold, ...] = ()


Claims = tuple[Claim, ...]  # one for each process


def waits_for(claims: Claims, number: int) -> int:
    """Return the process that the next step of process `number` certainly waits for, or 0.

    The result is negative if the wait may end differently from a wait that begins later.
    """
    claim = claims[number - 1] if claims else Claim()
    if claim.wants is None:
        return 0
    for other, other_claim in enumerate(claims, start=1):
        if other == number:
            continue
        for hold in other_claim.holds:
            if hold.row == claim.wants and (claim.exact or claim.text == hold.text):
                return other if hold.harmless else -other
    return 0


def find_claim(step: Any, effect: Effect, earlier: Sequence[TakenStep], tables: Tables) -> Claim:
    """Return the claim of a process at a step, after its earlier steps."""
    holds = _find_holds(earlier, tables)
    # After an error PostgreSQL refuses every statement of the transaction, and none of them waits.
    failed = any(getattr(step, "error", "") for step, _ in list_steps_of_open_transaction(earlier))
    # Above READ COMMITTED, the rows are not known: a statement may fail at once, and not wait.
    if effect.kind == "write" and not failed and effect.writes != EVERYWHERE:
        shape, row = tables.find_shape_and_row(step.sql, step.params)
        if shape and row and shape.locks and shape.strong and shape.waits:
            return Claim(row, shape.exact, f"{step.sql} {step.params!r}", holds)
    return Claim(holds=holds)


def list_steps_of_open_transaction(steps: Sequence[TakenStep]) -> Sequence[TakenStep]:
    begin = 0
    for number, (step, _) in enumerate(steps, start=1):
        if step.kind in ENDS:
            begin = number
    return steps[begin:]


def _find_holds(earlier: Sequence[TakenStep], tables: Tables) -> tuple[Hold, ...]:
    """Return the single rows that the open transaction has locked; none if that is not known."""
    taken = list_steps_of_open_transaction(earlier)
    for step, effect in taken:
        if effect == GLOBAL or step.kind == "ROLLBACK TO" or getattr(step, "error", ""):
            return ()
    writing = [(step, effect.writes) for step, effect in taken if effect.kind == "write"]
    holds = []
    for step, _ in writing:
        shape, row = tables.find_shape_and_row(step.sql, step.params)
        if not (shape and row and shape.locks and shape.strong):
            continue
        if getattr(step, "rowcount", -1) != 1:
            continue
        table = (RowSet(row.table),)
        same_table = [other for other, writes in writing if do_overlap(writes, table)]
        # A row with this value must not appear, nor be deleted and inserted again.
        harmless = all(tables.does_keep_value(other.sql, other.params, row) for other in same_table)
        deletes = any(other.kind == "DELETE" for other in same_table)
        assigns = any(tables.does_assign_column(other.sql, row) for other in same_table)
        # Sent again, the statement waits if the transaction has not changed the table before.
        text = f"{step.sql} {step.params!r}" if same_table[0] is step else ""
        holds.append(Hold(row, text, harmless and not (deletes and assigns)))
    return tuple(holds)
