"""Restores the rows of all tables, without emptying every table.

PostgreSQL counts the rows that are written to each table. So only tables that were written are
compared, and only rows that differ are deleted or inserted. Sequences are restored, too.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

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
# the file, a refresh the file or the counts, and anything else the counts.
TABLES = """
    SELECT oid::bigint, oid::regclass::text, pg_relation_filenode(oid)::bigint,
        pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid)
        + pg_stat_get_tuples_deleted(oid), relkind = 'm', pg_relation_size(oid)
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
SEQUENCES = """
    SELECT coalesce(array_agg(format('SELECT setval(%L, %s)', seqrelid::regclass, coalesce(
        pg_sequence_last_value(seqrelid) || ', true', seqstart || ', false'))
        ORDER BY seqrelid), '{}') FROM pg_sequence JOIN pg_class ON pg_class.oid = seqrelid
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
IS_IN_ORDER = """
    SELECT coalesce(array_agg(whole_row::text ORDER BY ctid)::text = {saved}, false)
    FROM ONLY {name} whole_row
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
    ask("SELECT pg_stat_force_next_flush()", {})  # so that TABLES has the writes of this session
    return {oid: WatchedTable(oid, *row) for oid, *row in ask(TABLES, {})}


def require_counts(ask: Ask) -> None:
    [(track_counts,)] = ask("SHOW track_counts", {})
    if track_counts != "on":
        text = "The counts of track_counts, which is off, tell which tables were written."
        raise CannotExplore(text)


class Rows:
    """The rows of all tables when the object is made; `ask` has to be outside a transaction."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        require_counts(ask)
        [(self._may_ignore_triggers,)] = ask(MAY_IGNORE_TRIGGERS, {})
        [(has_always_triggers,)] = ask(ALWAYS_TRIGGERS, {})
        self._nothing_fires = self._may_ignore_triggers and not has_always_triggers
        self._tables = read_tables(ask)  # as they were last seen
        self._too_large = {oid for oid, table in self._tables.items() if table.size > MAX_BYTES}
        self._positions = self._sort_tables()
        [(self._sequences,)] = ask(SEQUENCES, {})
        self._row_counts: dict[int, int] = {}  # by the table's oid
        self._rows: dict[int, str] = {}  # as SQL, by the oid of each table that has rows
        to_save = [table for table in self._tables.values() if 0 < table.size <= MAX_BYTES]
        queries = [SAVE.format(oid=table.oid, name=table.name) for table in to_save]
        for oid, rows, count in ask(" UNION ALL ".join(queries), {}) if queries else ():
            self._row_counts[oid] = count
            self._rows[oid] = rows or NO_ROWS

    def has_changed(self) -> bool:
        """Whether a table was written or a sequence has moved, even if rows are as before."""
        return bool(self._find_written(read_tables(self._ask)) or self._find_sequence_statements())

    def put_back(self) -> None:
        """Restore the rows of all tables, and the sequences.

        Raises CannotExplore if a table that was written is too large, if a materialized view was
        out of date and is not now, or if something writes again whenever rows are restored.
        """
        for _ in range(MAX_PASSES):  # until a pass finds nothing to restore
            tables = read_tables(self._ask)
            written = self._find_written(tables)
            self._tables = tables
            plain_tables = [table for table in written if not table.is_view]
            statements = self._write_statements(plain_tables) + self._find_sequence_statements()
            if statements:
                self._run_in_transaction(statements)
            if self._may_ignore_triggers:
                self._restore_order(plain_tables)
            views = [table for table in written if table.is_view]
            refreshed = [view for view in views if self._refresh_if_changed(view)]
            if not (statements or refreshed):
                return
            if self._nothing_fires:  # no trigger: one pass restores all
                self._tables = read_tables(self._ask)
                return
        names = ", ".join(table.name for table in written)
        raise CannotExplore(f"Rows cannot be restored: something keeps writing to {names}.")

    def _restore_order(self, tables: list[WatchedTable]) -> None:
        """Restore the order of the rows in small tables: a statement locks them in this order."""
        for table in tables:
            if not 1 < self._row_counts.get(table.oid, 0) <= MAX_ORDERED_ROWS:
                continue
            query = IS_IN_ORDER.format(name=table.name, saved=self._rows[table.oid])
            [(is_in_order,)] = self._ask(query, {})
            if not is_in_order:
                self._run_in_transaction([REWRITE.format(**self._write_sql_parts(table))])

    def _find_sequence_statements(self) -> list[str]:
        """Return the statements that restore all sequences, if one has moved."""
        [(sequences,)] = self._ask(SEQUENCES, {})
        return [] if sequences == self._sequences else self._sequences

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
        [(columns, values)] = self._ask(COLUMNS.format(oid=table.oid), {})
        saved = self._rows.get(table.oid, NO_ROWS)
        return {"name": table.name, "saved": saved, "columns": columns, "values": values}

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

    def _run_in_transaction(self, statements: list[str]) -> None:
        begin = ["BEGIN", "SET CONSTRAINTS ALL DEFERRED"]
        if self._may_ignore_triggers:
            begin.append("SET LOCAL session_replication_role = replica")
        try:
            self._ask("; ".join([*begin, *statements, "COMMIT"]), {})
        except BaseException:
            self._ask("ROLLBACK", {})
            raise
