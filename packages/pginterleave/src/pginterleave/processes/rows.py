"""Restores the rows of all tables, without emptying every table.

PostgreSQL counts the rows that are written to each table. So only tables that were written are
compared, and only rows that differ are deleted or inserted. Sequences are restored, too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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

# Every table that this role may write and that belongs to no extension, and every materialized view
# that this role may refresh. The file and the counts tell whether it was written: TRUNCATE changes
# the file, a refresh the file or the counts, and anything else the counts. What this session has
# not added to the counts yet is added here.
TABLES = """
    SELECT oid::bigint, oid::regclass::text, pg_relation_filenode(oid)::bigint,
        pg_stat_get_tuples_inserted(oid) + pg_stat_get_xact_tuples_inserted(oid)
        + pg_stat_get_tuples_updated(oid) + pg_stat_get_xact_tuples_updated(oid)
        + pg_stat_get_tuples_deleted(oid) + pg_stat_get_xact_tuples_deleted(oid),
        relkind = 'm', pg_relation_size(oid)
    FROM pg_class
    WHERE relkind IN ('r', 'm') AND relpersistence <> 't'
        AND relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
        AND has_table_privilege(oid, 'SELECT') AND (
            has_table_privilege(oid, 'INSERT') AND has_table_privilege(oid, 'DELETE')
            OR relkind = 'm' AND pg_has_role(relowner, 'USAGE'))
        AND NOT EXISTS (
            SELECT FROM pg_depend
            WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid AND deptype = 'e')
"""
# In the same form, with no oid: the statements that give all sequences their present values.
SEQUENCES = """
    SELECT 0, coalesce(string_agg(format('SELECT setval(%L, %s)', seqrelid::regclass, coalesce(
        pg_sequence_last_value(seqrelid) || ', true', seqstart || ', false')), '; '
        ORDER BY seqrelid), ''), NULL, 0, false, 0
    FROM pg_sequence JOIN pg_class ON pg_class.oid = seqrelid
    WHERE relpersistence <> 't' AND has_sequence_privilege(seqrelid, 'UPDATE')
        AND has_sequence_privilege(seqrelid, 'USAGE')
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
# In the same form, with a negative oid: a table whose rows have other places.
OUT_OF_ORDER = """
    SELECT -{oid}, '', NULL, 0, false, 0 FROM ONLY {name} whole_row
    HAVING array_agg(whole_row::text ORDER BY ctid)::text IS DISTINCT FROM {saved}
"""
REWRITE = """
    DELETE FROM ONLY {name};
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
    """A table or materialized view: whoever writes to it changes `file` or `changes`."""

    oid: int
    name: str  # quoted, and with its schema if needed
    file: int | None  # its number on disk
    changes: int  # the rows that were ever inserted, updated or deleted
    is_view: bool  # whether it is a materialized view
    size: int = field(compare=False)  # bytes


def read_tables(ask: Ask) -> dict[int, WatchedTable]:
    """Return every table that this role may write, by its oid."""
    return {oid: WatchedTable(oid, *row) for oid, *row in ask(TABLES, {})}


def require_counts(ask: Ask) -> None:
    [(track_counts,)] = ask("SHOW track_counts", {})
    if track_counts != "on":
        text = "The counts of track_counts, which is off, tell which tables were written."
        raise CannotExplore(text)


class State(NamedTuple):
    """What was written, and what has moved."""

    tables: dict[int, WatchedTable]  # by oid
    sequences: str  # the statements that give all sequences these values
    out_of_order: list[int]  # the oids of tables


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
        self._too_large = {oid for oid, table in self._tables.items() if table.size > MAX_BYTES}
        self._positions = self._sort_tables()
        self._row_counts: dict[int, int] = {}  # by the table's oid
        self._sql_parts: dict[int, dict[str, str]] = {}  # by the table's oid
        self._rows: dict[int, str] = {}  # as SQL, by the oid of each table that has rows
        to_save = [table for table in self._tables.values() if 0 < table.size <= MAX_BYTES]
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
        for _ in range(MAX_PASSES):  # until a pass finds nothing to restore
            written = self._find_written(state.tables)
            self._tables = state.tables
            plain_tables = [table for table in written if not table.is_view]
            statements = self._write_statements(plain_tables)
            if state.sequences != self._sequences:
                statements.append(self._sequences)
            if statements:
                state = self._restore(statements, plain_tables)
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

    def _restore(self, statements: list[str], tables: list[WatchedTable]) -> State:
        """Restore rows, and in small tables their order: a statement locks them in this order."""
        ordered = {
            table.oid: self._write_sql_parts(table)
            for table in tables
            if self._may_ignore_triggers
            and 1 < self._row_counts.get(table.oid, 0) <= MAX_ORDERED_ROWS
        }
        queries = [OUT_OF_ORDER.format(oid=oid, **parts) for oid, parts in ordered.items()]
        state = self._run(statements, queries)
        rewrites = [REWRITE.format(**ordered[oid]) for oid in state.out_of_order]
        return self._run(rewrites) if rewrites else state

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

    def _write_statements(self, tables: list[WatchedTable]) -> list[str]:
        """Return the statements that delete all wrong rows, and then insert the missing ones."""
        statements: list[str] = []
        for table in tables:
            if table.oid in self._too_large:
                raise CannotExplore(
                    f"The table {table.name} was written, and is larger than {MAX_BYTES} bytes: "
                    "its rows cannot be restored."
                )
            parts = self._write_sql_parts(table)
            # A table is emptied before the tables that it refers to, and filled after them.
            delete = DELETE_WRONG.format(**parts)
            insert = INSERT_MISSING.format(**parts)
            statements = [delete, *statements, insert]
        return statements

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

    def _run(self, statements: Sequence[str] = (), queries: Sequence[str] = ()) -> State:
        """Run statements in a transaction, if there are some, and return the state after it.

        `queries` are those of tables whose rows may be out of order.
        """
        script = [" UNION ALL ".join([TABLES, SEQUENCES, *queries])]
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
        tables = {oid: WatchedTable(oid, *row) for oid, *row in rows if oid > 0}
        (sequences,) = [name for oid, name, *_ in rows if not oid]
        return State(tables, sequences, [-oid for oid, *_ in rows if oid < 0])
