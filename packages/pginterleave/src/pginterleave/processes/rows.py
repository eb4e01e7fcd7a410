"""Restores the rows of all tables, without emptying every table.

PostgreSQL counts the rows that are written to each table. So only tables that were written are
compared, and only rows that differ are deleted or inserted: in a small table all, for their order.
Sequences are restored, too.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from pginterleave.explorer_errors import CannotExplore

Ask = Callable[[str, dict[str, Any]], list[Any]]

MAX_BYTES = 16 * 2**20  # of a table that is saved; a larger table must not be written
MAX_ORDERED_ROWS = 1000  # rows of a table, whose order in the table is restored, too
NO_ROWS = "'{}'"  # an empty array, as SQL
MAX_PASSES = 5  # triggers and cascades may change rows that have been restored

ALWAYS_TRIGGERS = """
    SELECT EXISTS (SELECT FROM pg_trigger WHERE tgenabled IN ('A', 'R') AND NOT tgisinternal)
"""
MAY_IGNORE_TRIGGERS = "SELECT has_parameter_privilege('session_replication_role', 'SET')"

# In this package's SQL, oids below 16384 (FirstNormalObjectId) are of PostgreSQL's own objects.
#
# Every table that this role may write and that belongs to no extension, and every materialized view
# that this role may refresh. The file and the counts tell whether it was written: TRUNCATE changes
# the file, a refresh the file or the counts, and anything else the counts. What this session has
# not added to the counts yet is added here. It runs several times in each schedule: the extensions'
# tables are an array, because PostgreSQL would take longer to plan a join.
TABLES = """
    SELECT oid::bigint, oid::regclass::text, pg_relation_filenode(oid)::bigint,
        pg_stat_get_tuples_inserted(oid) + pg_stat_get_xact_tuples_inserted(oid),
        pg_stat_get_tuples_updated(oid) + pg_stat_get_xact_tuples_updated(oid)
        + pg_stat_get_tuples_deleted(oid) + pg_stat_get_xact_tuples_deleted(oid),
        relkind = 'm'
    FROM pg_class
    WHERE oid >= 16384 AND relkind IN ('r', 'm') AND relpersistence <> 't'
        AND has_table_privilege(oid, 'SELECT') AND (
            has_table_privilege(oid, 'INSERT') AND has_table_privilege(oid, 'DELETE')
            OR relkind = 'm' AND pg_has_role(relowner, 'USAGE'))
        AND oid <> ALL (ARRAY(
            SELECT objid FROM pg_depend
            WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_extension'::regclass
                AND deptype = 'e'))
"""
SIZES = """
    SELECT oid, pg_relation_size(oid::oid) FROM unnest(%(oids)s::bigint[]) AS oid
"""
# In the same form, with no oid: the statements that give all sequences their present values.
SEQUENCES = """
    SELECT 0, coalesce(string_agg(format('SELECT setval(%L, %s)', seqrelid::regclass, coalesce(
        pg_sequence_last_value(seqrelid) || ', true', seqstart || ', false')), '; '
        ORDER BY seqrelid), ''), NULL, 0, 0, false
    FROM pg_sequence
    WHERE (SELECT relpersistence FROM pg_class WHERE oid = seqrelid) <> 't'
        AND has_sequence_privilege(seqrelid, 'UPDATE') AND has_sequence_privilege(seqrelid, 'USAGE')
"""
COLUMNS = """
    SELECT string_agg(quote_ident(attname), ', '), string_agg('(r).' || quote_ident(attname), ', ')
    FROM pg_attribute
    WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
"""
# Tables, each with a table that it refers to. That table is filled first and emptied last.
# Deferrable foreign keys, such as Django's, need no order.
REFERENCES = """
    SELECT conrelid::bigint, confrelid::bigint FROM pg_constraint
    WHERE contype = 'f' AND conrelid <> confrelid AND NOT condeferrable
"""
SAVE = """
    SELECT {oid}, quote_literal(array_agg(whole_row::text ORDER BY ctid)::text), count(*)
    FROM ONLY {name} whole_row
"""
EMPTY = "DELETE FROM ONLY {name}"
FILL = """
    INSERT INTO {name} ({columns}) OVERRIDING SYSTEM VALUE SELECT {values} FROM (
        SELECT line::{name} AS r, place
        FROM unnest({saved}::text[]) WITH ORDINALITY AS saved (line, place)
    ) AS saved ORDER BY place
"""
# Equal rows are counted: those above the saved number are deleted, and missing ones are inserted.
DELETE_WRONG = """
    DELETE FROM ONLY {name} WHERE ctid IN (
        SELECT place FROM (
            SELECT ctid AS place, whole_row::text AS line,
                row_number() OVER (PARTITION BY whole_row::text) AS copy
            FROM ONLY {name} whole_row) AS now
        LEFT JOIN (
            SELECT line, count(*) AS copies FROM unnest({saved}::text[]) AS line GROUP BY line
        ) AS saved USING (line)
        WHERE copy > coalesce(copies, 0))
"""
INSERT_MISSING = """
    INSERT INTO {name} ({columns}) OVERRIDING SYSTEM VALUE SELECT {values} FROM (
        SELECT line::{name} AS r FROM (
            SELECT unnest({saved}::text[]) AS line
            EXCEPT ALL SELECT whole_row::text FROM ONLY {name} whole_row) AS missing) AS missing
"""
DIFFERS = """
    (SELECT unnest({saved}::text[]) EXCEPT ALL SELECT whole_row::text FROM {name} whole_row)
    UNION ALL
    (SELECT whole_row::text FROM {name} whole_row EXCEPT ALL SELECT unnest({saved}::text[]))
"""


@dataclass(frozen=True)
class WatchedTable:
    """A table or materialized view: whoever writes to it changes the file or a count."""

    oid: int
    name: str  # quoted, and with its schema if needed
    file: int | None  # its number on disk
    inserted: int  # how many rows ever were
    changed: int  # how many rows ever were updated or deleted
    is_view: bool  # whether it is a materialized view


def read_tables(ask: Ask) -> dict[int, WatchedTable]:
    """Return every table that this role may write, by its oid."""
    return {oid: WatchedTable(oid, *row) for oid, *row in ask(TABLES, {})}


def read_sizes(ask: Ask, tables: Iterable[WatchedTable]) -> dict[int, int]:
    """Return how many bytes each of these tables has, by its oid."""
    oids = [table.oid for table in tables]
    return dict(ask(SIZES, {"oids": oids})) if oids else {}


def require_counts(ask: Ask) -> None:
    [(track_counts,)] = ask("SHOW track_counts", {})
    if track_counts != "on":
        text = "The counts of track_counts, which is off, tell which tables were written."
        raise CannotExplore(text)


class State(NamedTuple):
    """What tells whether a table was written, and whether a sequence has moved."""

    tables: dict[int, WatchedTable]  # by oid
    sequences: str  # the statements that give all sequences these values


class Rows:
    """The rows of all tables when the object is made; `ask` has to be outside a transaction."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        require_counts(ask)
        [(self._may_ignore_triggers,)] = ask(MAY_IGNORE_TRIGGERS, {})
        [(has_always_triggers,)] = ask(ALWAYS_TRIGGERS, {})
        self._nothing_fires = self._may_ignore_triggers and not has_always_triggers
        state = self._run()
        self._tables = state.tables  # as they were last seen
        self._sequences = state.sequences
        sizes = read_sizes(ask, self._tables.values())
        self._too_large = {oid for oid, size in sizes.items() if size > MAX_BYTES}
        self._positions = self._sort_tables()
        self._row_counts: dict[int, int] = {}  # by the table's oid
        self._sql_parts: dict[int, dict[str, str]] = {}  # by the table's oid
        self._rows: dict[int, str] = {}  # as SQL, by the oid of each table that has rows
        to_save = [self._tables[oid] for oid, size in sizes.items() if 0 < size <= MAX_BYTES]
        queries = [SAVE.format(oid=table.oid, name=table.name) for table in to_save]
        for oid, rows, count in ask(" UNION ALL ".join(queries), {}) if queries else ():
            self._row_counts[oid] = count
            self._rows[oid] = rows or NO_ROWS

    def has_changed(self) -> bool:
        """Whether a table was written or a sequence has moved, even if rows are as before."""
        state = self._run()
        return bool(self._find_written(state.tables)) or state.sequences != self._sequences

    def put_back(self) -> None:
        """Restore the rows of all tables, and the sequences.

        Raises CannotExplore if a table that was written is too large, if a materialized view was
        out of date and is not now, or if something writes again whenever rows are restored.
        """
        state = self._run()
        for number in range(MAX_PASSES):  # until a pass finds nothing to restore
            written = self._find_written(state.tables)
            plain_tables = [table for table in written if not table.is_view]
            statements = self._write_statements(plain_tables, in_order=number == 0)
            self._tables = state.tables
            if state.sequences != self._sequences:
                statements.append(self._sequences)
            if statements:
                state = self._run(statements)
            views = [table for table in written if table.is_view]
            refreshed = [view for view in views if self._refresh_if_changed(view)]
            if not (statements or refreshed):
                return
            if refreshed:
                state = self._run()
            if self._nothing_fires:  # no trigger: one pass restores all
                self._tables = state.tables
                return
        names = ", ".join(table.name for table in written)
        raise CannotExplore(f"Rows cannot be restored: something keeps writing to {names}.")

    def _find_written(self, tables: dict[int, WatchedTable]) -> list[WatchedTable]:
        """Return the tables that were written since `_tables`, each after those it refers to."""
        written = [table for oid, table in tables.items() if table != self._tables.get(oid)]
        return sorted(written, key=lambda table: (self._positions.get(table.oid, 0), table.oid))

    def _sort_tables(self) -> dict[int, int]:
        """Return each table's position, after those it refers to; none if tables form a circle."""
        sorter: TopologicalSorter[int] = TopologicalSorter()
        for table, other in self._ask(REFERENCES, {}):
            sorter.add(table, other)
        try:
            return {oid: number for number, oid in enumerate(sorter.static_order(), start=1)}
        except CycleError:
            return {}

    def _write_statements(self, tables: list[WatchedTable], *, in_order: bool) -> list[str]:
        """Return the statements that delete all wrong rows, and then insert the missing ones.

        With `in_order`, small tables of which rows were changed get all rows anew, in their places:
        a statement locks rows in the order of these.
        """
        statements: list[str] = []
        for table in tables:
            if table.oid in self._too_large:
                raise CannotExplore(
                    f"The table {table.name} was written, and is larger than {MAX_BYTES} bytes: "
                    "its rows cannot be restored."
                )
            delete, insert = DELETE_WRONG, INSERT_MISSING
            is_small = self._row_counts.get(table.oid, 0) <= MAX_ORDERED_ROWS
            if in_order and self._may_ignore_triggers and is_small and self._has_moved_rows(table):
                delete, insert = EMPTY, FILL
            parts = self._write_sql_parts(table)
            # A table is emptied before the tables that it refers to, and filled after them.
            statements = [delete.format(**parts), *statements, insert.format(**parts)]
        return statements

    def _has_moved_rows(self, table: WatchedTable) -> bool:
        """Whether rows of a table were updated or deleted since `_tables` was read."""
        before = self._tables.get(table.oid)
        return before is None or (before.file, before.changed) != (table.file, table.changed)

    def _write_sql_parts(self, table: WatchedTable) -> dict[str, str]:
        """Return what the SQL above says in braces of a table: its name, its rows, its columns."""
        if table.oid not in self._sql_parts:
            [(columns, values)] = self._ask(COLUMNS.format(oid=table.oid), {})
            saved = self._rows.get(table.oid, NO_ROWS)
            parts = {"name": table.name, "saved": saved, "columns": columns, "values": values}
            self._sql_parts[table.oid] = parts
        return self._sql_parts[table.oid]

    def _refresh_if_changed(self, view: WatchedTable) -> bool:
        """Refresh a materialized view if it has changed; return whether it had."""
        differs = DIFFERS.format(name=view.name, saved=self._rows.get(view.oid, NO_ROWS))
        if not self._ask(differs, {}):
            return False
        self._ask(f"REFRESH MATERIALIZED VIEW {view.name}", {})
        if view.oid in self._too_large or self._ask(differs, {}):
            raise CannotExplore(
                f"The materialized view {view.name} was refreshed and cannot be restored: it was "
                f"out of date, or is larger than {MAX_BYTES} bytes. Refresh it before the test."
            )
        return True

    def _run(self, statements: Sequence[str] = ()) -> State:
        """Run statements in a transaction, if there are some, and return the state after it."""
        script = [f"{TABLES} UNION ALL {SEQUENCES}"]
        if statements:
            replica = ["SET LOCAL session_replication_role = replica"]
            begin = ["BEGIN", "SET CONSTRAINTS ALL DEFERRED", *replica * self._may_ignore_triggers]
            script = [*begin, *statements, "COMMIT", *script]
        try:
            rows = self._ask("; ".join(script), {})
        except BaseException:
            if statements:
                self._ask("ROLLBACK", {})
            raise
        tables = {oid: WatchedTable(oid, *row) for oid, *row in rows if oid}
        # The row of SEQUENCES has the oid 0 and, as its name, the SQL that restores all of them.
        (sequences,) = [name for oid, name, *_ in rows if not oid]
        return State(tables, sequences)
