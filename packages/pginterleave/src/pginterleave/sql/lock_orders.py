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
            runs_often = _may_run_for_each_row(sql, calls[0].start())
            locked[ADVISORY] = len(calls) > 1 or rows > 1 or runs_often
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

        A statement without ORDER BY locks its rows in the order of their places, which may differ.
        """
        by_place: dict[str, set[int]] = defaultdict(set)  # by table, the processes that do so
        for (process, sql, _), locked in self._locked.items():
            if statements.words(sql) >= {"order", "by"} or statements.only_inserts(sql):
                continue
            for table in locked:
                if locked[table] and table != ADVISORY:
                    by_place[table].add(process)
        held: dict[tuple[int, str], set[RowSet]] = defaultdict(set)  # by process and table
        for step in steps if by_place else ():
            locked = self.tables.locked_together(step.sql, step.rowcount)
            for table in () if statements.only_inserts(step.sql) else locked:
                rows = held[step.process, table]
                rows |= self.tables.locked_rows(step, table)
                # Two rows that are known by different columns may be one.
                differ = any(
                    row.column == other.column or "" in (row.column, other.column)
                    for row, other in combinations(rows, 2)
                )
                if differ and by_place[table] - {step.process}:
                    yield f"in which order one statement locks several rows of {table}"
            for key in [] if step.in_transaction else [*held]:
                if key[0] == step.process:
                    del held[key]


def _may_run_for_each_row(sql: str, index: int) -> bool:
    """Whether a call at this place may run more often than the statement returns rows."""
    words = statements.words(sql)
    before = sql[:index].lower()
    if "from" not in words and statements.kind(sql) == "SELECT":
        return False
    returned = before.count("(") == before.count(")") and "from" not in statements.words(before)
    plain = statements.kind(sql) == "SELECT" and sql.lower().count("select") == 1
    return not (returned and plain and words.isdisjoint(_MAY_BE_SEVERAL))
