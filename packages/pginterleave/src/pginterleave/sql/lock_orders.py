"""The order in which one statement takes several locks, which no schedule decides.

Two such statements of two processes may wait for each other within their steps.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from pginterleave.sql import statements
from pginterleave.sql.rows_touched import RowSet, Tables
from pginterleave.steps import Step

ADVISORY = "advisory locks"  # in place of a table
_ADVISORY_CALL = re.compile(r'\bpg_advisory_(?:xact_)?lock(?:_shared)?"?\s*\(', re.IGNORECASE)
_MAY_BE_SEVERAL = frozenset(("union", "group", "distinct", "offset", "having", "lateral"))
SeveralByTable = dict[str, bool]  # the locked tables: whether a statement locks several rows


class LockOrders:
    """Collects what the statements of each process lock, and compares it with the others'."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        # What statements lock, by their process, their SQL, and whether they had several rows.
        self._locked: dict[tuple[int, str, bool], SeveralByTable] = {}

    def note_statement(self, sql: str, rows: int, process: int) -> Iterator[str]:
        """Note a statement that has locked so many rows; yield the limits that follow."""
        if statements.find_kind(sql) == "COPY":
            rows = 2  # the driver does not always tell how many
        locked = self.tables.find_locked_tables(sql, rows)
        if calls := [*_ADVISORY_CALL.finditer(sql)]:
            runs_often = _may_run_for_each_row(sql, calls[0].start())
            locked[ADVISORY] = len(calls) > 1 or rows > 1 or runs_often
        checked_late = self.tables.find_checked_late() if statements.may_write(sql) else set()
        late = locked.keys() & checked_late
        if not (late or len(locked) > 1 or any(locked.values())):
            return
        for (other_process, other_sql, _), other_locked in self._locked.items():
            if other_process == process:
                continue
            both = sorted(locked.keys() & other_locked.keys())
            for table in both:
                if locked[table] and other_locked[table]:
                    what = table if table == ADVISORY else f"rows of {table}"
                    yield f"in which order one statement locks several {what}"
                if table in late and statements.may_write(other_sql):
                    yield (
                        f"which of two statements is first in {table}, whose constraint is checked "
                        "after each has written"
                    )
            if len(both) > 1 and other_sql != sql:
                yield f"in which order one statement locks rows of {' and '.join(both)}"
        self._locked[process, sql, rows > 1] = locked

    def note_schedule(self, steps: Sequence[Step]) -> Iterator[str]:
        """Note the transactions that lock several rows one by one; yield the limits that follow.

        A statement without ORDER BY locks its rows in the order of their places, which may differ.
        """
        unsorted: dict[str, set[int]] = defaultdict(set)  # by table, the processes that do so
        for (process, sql, _), locked in self._locked.items():
            if statements.find_words(sql) >= {"order", "by"} or statements.is_insert(sql):
                continue
            for table in locked:
                if locked[table] and table != ADVISORY:
                    unsorted[table].add(process)
        if not unsorted:
            return
        held: dict[int, dict[str, set[RowSet]]] = defaultdict(lambda: defaultdict(set))
        for step in steps:
            locked = self.tables.find_locked_tables(step.sql, step.rowcount)
            for table in locked if not statements.is_insert(step.sql) else ():
                rows = held[step.process][table]
                rows |= self.tables.find_locked_rows(step, table)
                # Two rows that are known by different columns may be one.
                has_two_rows = any(
                    row.column == other.column or "" in (row.column, other.column)
                    for row, other in combinations(rows, 2)
                )
                if has_two_rows and unsorted[table] - {step.process}:
                    yield f"in which order one statement locks several rows of {table}"
            if not step.in_transaction:
                held.pop(step.process, None)


def _may_run_for_each_row(sql: str, index: int) -> bool:
    """Whether a call at this place may run more often than the statement returns rows."""
    words = statements.find_words(sql)
    is_select = statements.find_kind(sql) == "SELECT"
    if "from" not in words and is_select:
        return False
    before = sql[:index].lower()
    is_outside_parentheses = before.count("(") == before.count(")")
    is_returned = is_outside_parentheses and "from" not in statements.find_words(before)
    is_plain = is_select and sql.lower().count("select") == 1
    return not (is_returned and is_plain and words.isdisjoint(_MAY_BE_SEVERAL))
