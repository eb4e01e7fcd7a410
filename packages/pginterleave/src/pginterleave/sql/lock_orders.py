"""The order in which one statement takes several locks, which no schedule decides.

Two such statements of two processes may wait for each other within their steps.
"""

import re
from collections.abc import Iterator

from pginterleave.sql import statements
from pginterleave.sql.rows_touched import Tables

ADVISORY = "advisory locks"  # in place of a table
_ADVISORY_CALL = re.compile(r"\bpg_advisory_(?:xact_)?lock(?:_shared)?\s*\(", re.IGNORECASE)
_MAY_BE_SEVERAL = frozenset(
    ("union", "group", "count", "sum", "min", "max", "every", "generate_series", "unnest")
)
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
        if calls := len(_ADVISORY_CALL.findall(sql)):
            words = statements.words(sql)
            nested = sql.lower().count("select") > 1 or not words.isdisjoint(_MAY_BE_SEVERAL)
            locked[ADVISORY] = calls > 1 or rows > 1 or ("from" in words and nested)
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
