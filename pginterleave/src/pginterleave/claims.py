"""Which rows a process holds, and which row its next step waits for, for certain.

In READ COMMITTED, PostgreSQL looks at a row again after a wait. So a statement that waits leads to
the same state as if it were sent after the end of the other transaction, and a search that merges
equal states need not run the wait. This holds for a statement about one row by a unique column,
unless the other transaction gives the column's value to another row.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pginterleave.effects import ENDS, GLOBAL, Effect
from pginterleave.footprints import RowSet, Tables, overlap


class Hold(NamedTuple):
    """A row that a transaction has locked, and not let go of."""

    place: RowSet
    text: str  # the statement that locked it, if the same statement of another process waits
    harmless: bool  # whether a wait for it ends as if it had begun later


class Claim(NamedTuple):
    """What a process wants to lock next, and what it holds."""

    wants: RowSet | None = None
    exact: bool = False  # whether there is no further condition on the row
    text: str = ""
    holds: tuple[Hold, ...] = ()

    def has(self, place: RowSet | None) -> bool:
        """Whether it holds a row."""
        return any(each.place == place for each in self.holds)


Claims = tuple[Claim, ...]  # of each process


def waits_for(claims: Claims, number: int) -> int:
    """Return the process that the next step of process `number` waits for, for certain, or 0.

    The result is negative if the wait may end in another way than a wait that begins later.
    """
    if not claims or (claim := claims[number - 1]).wants is None:
        return 0
    for other, each in enumerate(claims, start=1):
        for hold in each.holds if other != number else ():
            if hold.place == claim.wants and (claim.exact or claim.text == hold.text):
                return other if hold.harmless else -other
    return 0


def claim(
    step: Any, effect: Effect, earlier: Sequence[tuple[Any, Effect]], tables: Tables
) -> Claim:
    """Return what a process claims at a step, after its earlier steps."""
    holds = _holds(earlier, tables)
    # After an error PostgreSQL refuses every statement of the transaction, and none of them waits.
    failed = any(getattr(step, "error", "") for step, _ in of_open_transaction(earlier))
    if effect.kind == "write" and not failed:
        known, row = tables.row(step.sql, step.params)
        if known and row and known.locks and known.strong and known.waits:
            return Claim(row, known.exact, _text(step), holds)
    return Claim(holds=holds)


def of_open_transaction(steps: Sequence[tuple[Any, Effect]]) -> Sequence[tuple[Any, Effect]]:
    """Return the steps, with their effects, since the last end of a transaction."""
    for place in range(len(steps), 0, -1):
        if steps[place - 1][0].kind in ENDS:
            return steps[place:]
    return steps


def _holds(earlier: Sequence[tuple[Any, Effect]], tables: Tables) -> tuple[Hold, ...]:
    taken = of_open_transaction(earlier)
    if any(
        effect == GLOBAL or step.kind == "ROLLBACK TO" or getattr(step, "error", "")
        for step, effect in taken
    ):
        return ()
    writes = [(step, effect.writes) for step, effect in taken if effect.kind == "write"]
    found = []
    for number, (step, _) in enumerate(writes):
        known, row = tables.row(step.sql, step.params)
        if not (known and row and known.locks and known.strong):
            continue
        if getattr(step, "rowcount", -1) != 1:
            continue
        table = (RowSet(row.table),)
        first = not any(overlap(places, table) for _, places in writes[:number])
        about = [each for each, places in writes if overlap(places, table)]
        harmless = all(tables.keeps(each.sql, each.params, row) for each in about)
        deletes = any(each.kind == "DELETE" for each in about)
        assigns = any(tables.assigns(each.sql, row) for each in about)
        hold = Hold(row, _text(step) if first else "", harmless and not (deletes and assigns))
        found.append(hold)
    return tuple(found)


def _text(step: Any) -> str:
    return f"{step.sql} {step.params!r}"
