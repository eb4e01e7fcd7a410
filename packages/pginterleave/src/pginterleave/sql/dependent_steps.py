"""Which steps depend on each other, and which certainly wait, for partial-order reduction.

Two steps of two processes are independent when it makes no difference which one goes first. Their
effects decide, which follow from the SQL, the catalogue and the earlier steps of the process.

A claim says which single rows a process has locked, and which one it wants to lock next. In READ
COMMITTED, a wait for such a row leads to the same state as if the statement were sent after the end
of the other transaction, unless that gives the value of the unique column to another row. So it
need not run.
"""

import functools
from collections.abc import Sequence, Set
from typing import Any, Final, Literal, NamedTuple

from pginterleave.sql import statements
from pginterleave.sql.rows_touched import EVERYWHERE, RowSet, RowSets, Tables, do_overlap
from pginterleave.sql.single_row import parse_simple_statement

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
    precedes_clock: bool = False  # whether Python then reads its clock: see ClockReads


LOCAL: Final = Effect("local")
GLOBAL: Final = Effect("global")
TakenStep = tuple[Any, Effect]  # a step with its effect


@functools.lru_cache(maxsize=2**14)
def are_dependent(effect: Effect, other: Effect) -> bool:
    """Return whether it can make a difference which of two steps of two processes goes first."""
    kinds = {effect.kind, other.kind}
    if effect.precedes_clock and other.precedes_clock:
        return True
    if "local" in kinds:
        return False
    if "global" in kinds:
        return True
    if effect.kind == "end":
        return do_overlap(effect.writes, (*other.reads, *other.writes))
    if other.kind == "end":
        return do_overlap(other.writes, (*effect.reads, *effect.writes))
    # A read sees no write of an open transaction, and two reads do not affect each other.
    return kinds == {"write"} and do_overlap(effect.writes, other.writes)


def find_effect(
    step: Any,  # with its `kind`, `sql` and `params`
    earlier: Sequence[TakenStep],  # what the process has taken before, in this schedule
    *,
    serializable: bool,  # whether its transactions are SERIALIZABLE by default
    commits: bool,  # whether the step commits its own writes
    failed: bool,  # whether the last step of the process ended in an error of PostgreSQL
    special_names: Set[str],  # see Catalogue
    special_in_writes: Set[str],  # the names that are special in statements that write
    tables: Tables | None,  # None above READ COMMITTED, with one snapshot in a transaction
) -> Effect:
    """Return the effect of the step that a process is about to take."""
    kind = step.kind
    sql = step.sql
    # Every step that is not known to affect others less is global.
    if statements.may_have_several_statements(sql):
        return GLOBAL
    earlier_texts = [f"{other.sql} {other.params}".upper() for other, _ in earlier]
    # Which transactions PostgreSQL aborts to keep them serializable depends on the order of reads.
    serializable = serializable or any("SERIALIZABLE" in text for text in earlier_texts)
    if any("ISOLATION" in text for text in earlier_texts):
        tables = None
    reads, writes = tables.find_touched(sql, step.params) if tables else (EVERYWHERE, EVERYWHERE)
    # PostgreSQL reads the clock for a parameter such as 'now', so its SELECT is not plain.
    has_clock_text = statements.has_clock_text(f"{step.params}")
    if statements.is_plain_select(sql, special_names) and not has_clock_text:
        return GLOBAL if serializable else Effect("read", reads)
    simple = parse_simple_statement(sql) if tables else None
    locks_rows = simple is not None and simple.kind == "SELECT" and simple.lock != ""
    is_locking_select = locks_rows and statements.is_plain_locking_select(sql)
    if kind in ("INSERT", "UPDATE", "DELETE") or is_locking_select:
        if commits or serializable or not statements.has_only_pure_calls(sql):
            return GLOBAL
        if statements.has_any_name(sql, special_names | special_in_writes):
            return GLOBAL
        return Effect("write", reads, writes)
    if statements.SETS_ISOLATION.fullmatch(sql):
        return LOCAL  # the snapshot is taken by the first query, not here
    if kind in ("SAVEPOINT", "RELEASE"):
        return LOCAL  # a wait for a subtransaction goes on until the whole transaction ends
    if failed and _has_error_undone_all(kind, sql, [other for other, _ in earlier]):
        return LOCAL
    is_plain_end = kind in ENDS - {"CLOSE"} and sql.strip(" ;\n").upper() == kind
    effects = [effect for _, effect in list_steps_of_open_transaction(earlier)]
    if is_plain_end and tables and not serializable and GLOBAL not in effects:
        written = set().union(*(effect.writes for effect in effects))
        return Effect("end", writes=tuple(sorted(written)))
    return GLOBAL


def _has_error_undone_all(kind: str, sql: str, earlier: Sequence[Any]) -> bool:
    """Whether a rollback has nothing left to undo, because an error has already undone it."""
    savepoint_steps = [other for other in earlier if "SAVEPOINT" in other.sql.upper()]
    if any(statements.may_have_several_statements(other.sql) for other in savepoint_steps):
        return False  # not all savepoints are known
    texts = [other.sql for other in savepoint_steps if other.kind == "SAVEPOINT"]
    names = [statements.find_savepoint_name(text) for text in texts]
    if not names:
        return sql == "ROLLBACK"
    if kind != "ROLLBACK TO":
        return False
    # The error has undone everything since the last savepoint, if no other has the same name.
    name = statements.find_savepoint_name(sql)
    return names[-1] == name and names.count(name) == 1


class RowLock(NamedTuple):
    """The lock of a row that a transaction has taken."""

    process: int
    row: RowSet
    statement: str  # with its parameters; "" if another process may send the same and not wait
    is_harmless: bool  # whether who waits for it goes on as if sent only after its release


class Claim(NamedTuple):
    """The row that the next step of a process locks, and the locks that the process has taken."""

    row: RowSet | None = None  # None: no single row, or not known
    has_only_equality: bool = False  # whether the statement has no further condition on the row
    statement: str = ""  # the SQL of the step, with its parameters
    locks: tuple[RowLock, ...] = ()


Claims = tuple[Claim, ...]  # one for each process; () if nothing is known of them


def find_claim(step: Any, effect: Effect, earlier: Sequence[TakenStep], tables: Tables) -> Claim:
    """Return the claim of a process at a step, after its earlier steps."""
    locks = _find_row_locks(earlier, tables)
    # After an error PostgreSQL refuses every statement of the transaction, and none of them waits.
    failed = any(getattr(step, "error", "") for step, _ in list_steps_of_open_transaction(earlier))
    # Above READ COMMITTED, the rows are not known: a statement may fail at once, and not wait.
    if effect.kind == "write" and not failed and effect.writes != EVERYWHERE:
        simple = parse_simple_statement(step.sql)
        row = tables.find_row(step.sql, step.params)
        if simple and row and simple.lock == "exclusive" and simple.waits:
            return Claim(row, simple.has_only_equality, f"{step.sql} {step.params!r}", locks)
    return Claim(locks=locks)


def list_steps_of_open_transaction(steps: Sequence[TakenStep]) -> Sequence[TakenStep]:
    ended = [number for number, (step, _) in enumerate(steps, start=1) if step.kind in ENDS]
    return steps[ended[-1] :] if ended else steps


def _find_row_locks(earlier: Sequence[TakenStep], tables: Tables) -> tuple[RowLock, ...]:
    """Return the single rows' locks that the open transaction holds; none if not all are known."""
    taken = list_steps_of_open_transaction(earlier)
    for step, effect in taken:
        if effect == GLOBAL or getattr(step, "error", None):
            return ()
    writing = [(step, effect.writes) for step, effect in taken if effect.kind == "write"]
    locks = []
    for step, _ in writing:
        simple = parse_simple_statement(step.sql)
        row = tables.find_row(step.sql, step.params)
        has_one_row = getattr(step, "rowcount", -1) == 1
        if not (simple and row and simple.lock == "exclusive" and has_one_row):
            continue
        table = (RowSet(row.table),)
        of_table = [other for other, writes in writing if do_overlap(writes, table)]
        # Sent again, the statement waits if the transaction has not changed the table before.
        statement = f"{step.sql} {step.params!r}" if of_table[0] is step else ""
        is_harmless = _is_wait_harmless(row, of_table, tables)
        locks.append(RowLock(step.process, row, statement, is_harmless))
    return tuple(locks)


def _is_wait_harmless(row: RowSet, writing: Sequence[Any], tables: Tables) -> bool:
    """Whether the steps that write to a row's table give its unique value to no other row.

    A statement that has waited looks at the same row again. Sent only now, it would find the other.
    """
    if not all(tables.does_keep_value(step.sql, step.params, row) for step in writing):
        return False
    # The row must not be deleted, and then another row get the value.
    assigns_value = any(tables.does_assign_value(step.sql, row) for step in writing)
    return not (assigns_value and any(step.kind == "DELETE" for step in writing))
