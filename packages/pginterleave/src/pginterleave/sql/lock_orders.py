"""The order in which one statement takes several locks, which no schedule decides.

Two such statements of two processes may wait for each other within their steps.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations

from pginterleave.sql import statements
from pginterleave.sql.rows_touched import RowSet, Tables
from pginterleave.steps import Step

ADVISORY = "advisory locks"  # in place of a table
_ADVISORY_CALL = re.compile(r'\bpg_advisory_(?:xact_)?lock(?:_shared)?"?\s*\(', re.IGNORECASE)
_MAY_BE_SEVERAL = frozenset(("union", "group", "distinct", "offset", "having", "lateral"))
Locked = dict[str, bool]  # by table, whether a statement locks several rows of it


class LockOrders:
    """Collects what the statements of each process lock, and compares it with the others'."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        # By process, statement and whether it had several rows.
        self._locked: dict[tuple[int, str, bool], Locked] = {}

    def note(self, sql: str, rows: int, process: int) -> Iterator[str]:
        """Note a statement that has locked so many rows; yield the limits that follow."""
        if statements.kind(sql) == "COPY":
            rows = 2  # the driver does not always tell how many
        locked = self.tables.locked_together(sql, rows)
        if calls := [*_ADVISORY_CALL.finditer(sql)]:
            locked[ADVISORY] = len(calls) > 1 or rows > 1 or _for_each_row(sql, calls[0].start())
        late = locked.keys() & self.tables.checked_late() if statements.writes(sql) else set()
        if not (late or len(locked) > 1 or any(locked.values())):
            return
        for (other, text, _), theirs in self._locked.items():
            if other == process:
                continue
            both = sorted(locked.keys() & theirs.keys())
            for table in both:
                if locked[table] and theirs[table]:
                    what = table if table == ADVISORY else f"rows of {table}"
                    yield f"in which order one statement locks several {what}"
                if table in late and statements.writes(text):
                    yield (
                        f"which of two statements is first in {table}, whose constraint is checked "
                        "after each has written"
                    )
            if len(both) > 1 and text != sql:
                yield f"in which order one statement locks rows of {' and '.join(both)}"
        self._locked[process, sql, rows > 1] = locked

    def note_schedule(self, steps: Sequence[Step]) -> Iterator[str]:
        """Note the transactions that lock several rows one by one; yield the limits that follow.

        A statement without ORDER BY locks its rows in the order of their places, which differ from
        database to database.
        """
        by_place = {
            (process, table)
            for (process, sql, _), locked in self._locked.items()
            if not statements.words(sql) >= {"order", "by"} and not statements.only_inserts(sql)
            for table, several in locked.items()
            if several and table != ADVISORY
        }
        if not by_place:
            return
        held: dict[tuple[int, str], set[RowSet]] = {}  # by process and table, in one transaction
        for step in steps:
            locked = self.tables.locked_together(step.sql, step.rowcount)
            for table in () if statements.only_inserts(step.sql) else locked:
                rows = held.setdefault((step.process, table), set())
                rows |= self.tables.locked_rows(step, table)
                others = {other for other, name in by_place if name == table} - {step.process}
                if others and any(_differ(*pair) for pair in combinations(rows, 2)):
                    yield f"in which order one statement locks several rows of {table}"
            if not step.in_transaction:
                held = {key: rows for key, rows in held.items() if key[0] != step.process}


def _differ(row: RowSet, other: RowSet) -> bool:
    """Whether two may be different rows: by the same column, or because one is not known."""
    return row.column == other.column or "" in (row.column, other.column)


def _for_each_row(sql: str, index: int) -> bool:
    """Whether a call at this place may run more often than the statement returns rows."""
    words, before = statements.words(sql), sql[:index].lower()
    if "from" not in words and statements.kind(sql) == "SELECT":
        return False
    returned = before.count("(") == before.count(")") and "from" not in statements.words(before)
    plain = statements.kind(sql) == "SELECT" and sql.lower().count("select") == 1
    return not (returned and plain and words.isdisjoint(_MAY_BE_SEVERAL))
