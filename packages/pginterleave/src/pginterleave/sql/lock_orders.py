"""The order in which one statement takes several locks, which no schedule decides.

Two such statements of two processes may wait for each other within their steps.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from pginterleave.sql import statements
from pginterleave.sql.rows_touched import LocksSeveral, RowSet, Tables
from pginterleave.steps import Step

ADVISORY = "advisory locks"  # in place of a table
_ADVISORY_CALL = re.compile(r'\bpg_advisory_(?:xact_)?lock(?:_shared)?"?\s*\(', re.IGNORECASE)
_MAY_BE_SEVERAL = frozenset(("union", "group", "distinct", "offset", "having", "lateral"))


class LockOrders:
    """Finds statements of two processes that may take the same locks in different orders."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        # What statements lock, by their process, their SQL, and whether they had several rows.
        self._locks: dict[tuple[int, str, bool], LocksSeveral] = {}

    def note_statement(self, sql: str, rows: int, process: int) -> Iterator[str]:
        """Compare a statement that has locked `rows` rows with those of others; yield limits."""
        if statements.find_kind(sql) == "COPY":
            rows = 2  # or more: the driver does not always tell how many
        locks_several = self.tables.find_locks(sql, rows)
        if calls := [*_ADVISORY_CALL.finditer(sql)]:
            runs_often = _may_run_for_each_row(sql, calls[0].start())
            locks_several[ADVISORY] = len(calls) > 1 or rows > 1 or runs_often
        checked_late = self.tables.find_checked_late() if statements.may_write(sql) else set()
        for (other_process, other_sql, _), other_locks_several in self._locks.items():
            if other_process == process:
                continue
            common = sorted(locks_several.keys() & other_locks_several.keys())
            for table in common:
                if locks_several[table] and other_locks_several[table]:
                    what = table if table == ADVISORY else f"rows of {table}"
                    yield f"in which order one statement locks several {what}"
                if table in checked_late and statements.may_write(other_sql):
                    yield (
                        f"which of two statements is first in {table}, whose constraint is checked "
                        "after each has written"
                    )
            if len(common) > 1 and other_sql != sql:  # the same SQL takes tables in one order
                yield f"in which order one statement locks rows of {' and '.join(common)}"
        self._locks[process, sql, rows > 1] = locks_several

    def note_schedule(self, steps: Sequence[Step]) -> Iterator[str]:
        """Compare transactions that lock several rows one by one with single statements."""
        unordered = self._find_unordered()
        # The rows that the open transaction of each process has locked, by table.
        locked: dict[int, dict[str, set[RowSet]]] = defaultdict(lambda: defaultdict(set))
        for step in steps if unordered else ():
            if not statements.locks_new_rows(step.sql):  # nobody else can lock new rows yet
                for table in self.tables.find_locks(step.sql, step.rowcount):
                    rows = locked[step.process][table]
                    rows |= self.tables.find_locked_rows(step, table)
                    # Two rows that are known by different columns may be one.
                    has_two_rows = any(
                        row.column == other.column or "" in (row.column, other.column)
                        for row, other in combinations(rows, 2)
                    )
                    if has_two_rows and unordered[table] - {step.process}:
                        yield f"in which order one statement locks several rows of {table}"
            if not step.in_transaction:
                locked.pop(step.process, None)

    def _find_unordered(self) -> dict[str, set[int]]:
        """Return by table the processes with a statement that locks several rows in any order.

        A statement without ORDER BY locks its rows in the order of their places, which may differ.
        """
        unordered: dict[str, set[int]] = defaultdict(set)
        for (process, sql, _), locks_several in self._locks.items():
            if statements.find_words(sql) >= {"order", "by"} or statements.locks_new_rows(sql):
                continue
            for table in locks_several:
                if locks_several[table] and table != ADVISORY:
                    unordered[table].add(process)
        return unordered


def _may_run_for_each_row(sql: str, position: int) -> bool:
    """Whether a call at this position may run more often than the statement returns rows."""
    words = statements.find_words(sql)
    is_select = statements.find_kind(sql) == "SELECT"
    if is_select and "from" not in words:
        return False
    has_several_parts = sql.lower().count("select") > 1 or not words.isdisjoint(_MAY_BE_SEVERAL)
    before = sql[:position].lower()
    is_in_parentheses = before.count("(") != before.count(")")
    is_after_from = "from" in statements.find_words(before)
    return not is_select or has_several_parts or is_in_parentheses or is_after_from
