"""What a process does and returns: one step, and its outcome."""

from dataclasses import dataclass
from typing import Any

from pginterleave import formatting


@dataclass(frozen=True)
class Outcome:
    """How a process ended: the value it returned, or the exception it raised."""

    returned: Any = None
    raised: BaseException | None = None


@dataclass(frozen=True)
class Step:
    """One step of a schedule, and its result.

    The step was sent as step `number` (from 1) and returned during step `until`. The two differ if
    the step waited for the processes `waited_for`, until a step of another process unblocked it.
    `rows` holds the first rows that the process fetched. `rowcount` is the driver's (-1: not
    known). `error` is the name of the driver's exception class, `message` the first line of the
    exception, and `detail` what PostgreSQL adds. `filename`, `lineno` and `function` name the line
    outside Django that sent the step. `observed` is what `observe` returned. `in_transaction` says
    whether the process was in a transaction afterwards.
    """

    number: int
    process: int
    kind: str
    sql: str
    params: Any
    filename: str
    lineno: int
    function: str
    until: int
    waited_for: tuple[int, ...] = ()
    rowcount: int = -1
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    error: str = ""
    message: str = ""
    detail: str = ""
    observed: Any = None
    in_transaction: bool = False

    def statement(self) -> str:
        """The SQL for a reader: parameters filled in, without quotes, long lists of columns cut."""
        return formatting.statement(self.sql, None if self.kind == "FETCH" else self.params)

    def result(self) -> str:
        """What PostgreSQL returned, in short: the error, the first row or the number of rows."""
        if self.error:
            return f"!! {self.error}"
        if self.rows:
            more = max(self.rowcount, len(self.rows)) - 1
            values = zip(self.columns, self.rows[0], strict=False)
            shown = ", ".join(f"{name} = {value}" for name, value in values)
            return f"→ {shown}" + (f" (+{more})" if more > 0 else "")
        if self.kind in {"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"} and self.rowcount >= 0:
            return f"→ {self.rowcount} row{'' if self.rowcount == 1 else 's'}"
        return ""


Timeline = tuple[Step, ...]
