"""Which rows of which tables a statement is about, from its text and PostgreSQL's catalogue.

The result never has too few rows: for an unknown statement it is every row of every table.
"""

import re
import uuid
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pginterleave.sql import statements
from pginterleave.sql.single_row import Shape, shape
from pginterleave.steps import Step


class RowSet(NamedTuple):
    """The row of a table in which a unique column has a value, or all rows of the table."""

    table: str
    column: str = ""
    value: str = ""


RowSets = tuple[RowSet, ...]
EVERYWHERE: Final[RowSets] = (RowSet("*"),)


def overlap(places: RowSets, others: RowSets) -> bool:
    """Whether the two may have a row in common."""
    for rows in places:
        for other_rows in others:
            if "*" in (rows.table, other_rows.table):
                return True
            same_column = rows.column and rows.column == other_rows.column
            if rows.table == other_rows.table and not (
                same_column and rows.value != other_rows.value
            ):
                return True
    return False


class Footprint(NamedTuple):
    """The rows that a statement reads from its snapshot, and the rows that it locks or writes."""

    reads: RowSets
    writes: RowSets


UNKNOWN: Final = Footprint(EVERYWHERE, EVERYWHERE)

# The tables, and whether they are plain: a write to one has no effect elsewhere through a rule, a
# trigger or a partition.
TABLES = """
    SELECT oid::bigint, lower(relname), relkind = 'r' AND NOT relhasrules AND NOT relrowsecurity
        AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = pg_class.oid AND NOT tgisinternal)
        AND NOT EXISTS (SELECT FROM pg_inherits WHERE pg_class.oid IN (inhrelid, inhparent))
    FROM pg_class WHERE oid >= 16384 AND relkind IN ('r', 'p') AND relpersistence <> 't'
"""
# The tables that a statement may also touch: by a foreign key, a partition, or a common sequence.
LINKS = """
    SELECT conrelid::bigint, confrelid::bigint FROM pg_constraint WHERE contype = 'f'
    UNION ALL SELECT inhparent::bigint, inhrelid::bigint FROM pg_inherits
    UNION ALL SELECT adrelid::bigint, refobjid::bigint
    FROM pg_depend JOIN pg_attrdef ON classid = 'pg_attrdef'::regclass AND objid = pg_attrdef.oid
        JOIN pg_class ON refclassid = 'pg_class'::regclass AND refobjid = pg_class.oid
    WHERE relkind = 'S'
"""
# The columns that are unique by themselves, with their types.
UNIQUE_COLUMNS = """
    SELECT indrelid::bigint, lower(attname), typname
    FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
        JOIN pg_type ON pg_type.oid = atttypid
        LEFT JOIN pg_collation ON pg_collation.oid = attcollation
    WHERE indrelid >= 16384 AND indisunique AND indimmediate AND indisvalid AND indnkeyatts = 1
        AND indpred IS NULL AND indexprs IS NULL AND coalesce(collisdeterministic, true)
"""
# The columns of keys and exclusion constraints: a change of one also locks or checks other rows.
KEY_COLUMNS = """
    SELECT indrelid::bigint, pg_get_indexdef(indexrelid)
    FROM pg_index WHERE indrelid >= 16384 AND (indisunique OR indisexclusion)
    UNION ALL SELECT conrelid::bigint, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE contype = 'f'
    UNION ALL SELECT confrelid::bigint, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE contype = 'f'
"""
# Tables, with the tables that a DELETE, and an UPDATE of a key, cascade to.
CASCADES = """
    SELECT confrelid::bigint, conrelid::bigint, confdeltype IN ('c', 'n', 'd'),
        confupdtype IN ('c', 'n', 'd')
    FROM pg_constraint WHERE contype = 'f'
"""
# Views, with the tables that they read; and tables, with their partitions.
PARTS = """
    SELECT lower(views.relname), lower(read.relname) FROM pg_rewrite
        JOIN pg_class AS views ON views.oid = ev_class AND views.relkind = 'v'
        JOIN pg_depend ON objid = pg_rewrite.oid AND classid = 'pg_rewrite'::regclass
            AND refclassid = 'pg_class'::regclass
        JOIN pg_class AS read ON read.oid = refobjid AND read.oid <> views.oid
    WHERE views.oid >= 16384
    UNION SELECT lower(whole.relname), lower(part.relname) FROM pg_inherits
        JOIN pg_class AS whole ON whole.oid = inhparent JOIN pg_class AS part ON part.oid = inhrelid
"""
# Tables with constraints that are checked when the row is written: two rows may then meet.
CHECKED_LATE = """
    SELECT DISTINCT indrelid::bigint FROM pg_index
    WHERE indrelid >= 16384 AND (indisexclusion OR indisunique AND NOT indimmediate)
"""


@dataclass
class KnownTable:
    """A table of the catalogue."""

    name: str
    parts: frozenset[str]  # the words of the name
    plain: bool
    unique: dict[str, str] = field(default_factory=dict)  # columns, with their types
    keys: set[str] = field(default_factory=set)
    linked: Set[str] = frozenset()  # the tables that a write may touch, with this one
    cascades: set[str] = field(default_factory=set)  # the tables that a DELETE cascades to
    follows: set[str] = field(default_factory=set)  # the tables that an UPDATE of a key cascades to
    checked_late: bool = False  # whether a constraint is checked after a row is written


class Tables:
    """The tables of a database, by their names."""

    def __init__(self) -> None:
        self._tables: dict[str, KnownTable] = {}
        self._parts: dict[str, set[str]] = {}  # of views, and of tables with partitions

    def learn(self, ask: Callable[[str], Iterable[Any]]) -> None:
        by_oid: dict[int, KnownTable] = {}
        for oid, name, plain in ask(TABLES):
            twice = name in self._tables  # in two schemas
            by_oid[oid] = self._tables.setdefault(
                name, KnownTable(name, statements.words(name), plain)
            )
            by_oid[oid].plain &= plain and not twice
        for oid, column, kind in ask(UNIQUE_COLUMNS):
            if oid in by_oid:
                by_oid[oid].unique[column] = kind
        for oid, definition in ask(KEY_COLUMNS):
            if oid in by_oid:
                by_oid[oid].keys |= statements.words(definition)
        for oid, other, deletes, updates in ask(CASCADES):
            if {oid, other} <= by_oid.keys():
                by_oid[oid].cascades |= {by_oid[other].name} if deletes else set()
                by_oid[oid].follows |= {by_oid[other].name} if updates else set()
        for name, part in ask(PARTS):
            self._parts.setdefault(name, set()).add(part)
        for (oid,) in ask(CHECKED_LATE):
            if oid in by_oid:
                by_oid[oid].checked_late = True
        groups: dict[object, set[Any]] = {}
        for pair in ask(LINKS):
            nodes = [by_oid[oid].name if oid in by_oid else oid for oid in pair]
            joined = set().union(*(groups.get(node, {node}) for node in nodes))
            groups.update(dict.fromkeys(joined, joined))
        for table in self._tables.values():
            names = groups.get(table.name, {table.name}) & self._tables.keys()
            table.linked = frozenset(names)

    def row(self, sql: str, params: Any) -> tuple[Shape | None, RowSet | None]:
        """Return the shape of a statement and its only row; None for each that is not known."""
        parsed = shape(sql)
        table = self._tables.get(parsed.table) if parsed else None
        if parsed is None or table is None or not table.plain:
            return None, None
        for column, constant in parsed.equal:
            value = _normal(constant.value(params), table.unique.get(column, ""))
            if value is not None:
                return parsed, RowSet(table.name, column, value)
        return parsed, None

    def named(self, sql: str) -> list[KnownTable] | None:
        """Return the tables that a statement names; None if not all of them are known."""
        words = statements.words(sql)
        tables = [table for table in self._tables.values() if table.parts <= words]
        names = {table.name for table in tables} | {
            part for table in tables for part in table.parts
        }
        return tables if tables and statements.table_words(sql) <= names else None

    def footprint(self, sql: str, params: Any) -> Footprint:
        """Return what a single statement reads and writes, if it calls pure functions only."""
        named = self.named(sql)
        if named is None:
            return UNKNOWN
        parsed, row = self.row(sql, params)
        all_rows = tuple(sorted(RowSet(table.name) for table in named))
        reads: RowSets = (row,) if row else all_rows
        if parsed and not parsed.locks:
            return Footprint(reads, ())
        if not all(table.plain for table in named):
            return Footprint(reads, EVERYWHERE)
        assigned = {column for column, _ in parsed.assigned} if parsed else set()
        if parsed and (
            parsed.kind == "SELECT"
            or (parsed.kind == "UPDATE" and assigned.isdisjoint(self._tables[parsed.table].keys))
        ):
            return Footprint(reads, (row,) if row else (RowSet(parsed.table),))
        linked = {name for table in named for name in table.linked}
        return Footprint(reads, tuple(sorted(map(RowSet, linked))))

    def reads_before_it_locks(self, sql: str) -> tuple[Set[str], Set[str]]:
        """Return the tables that a statement reads before it locks rows, and those it locks.

        Both are empty if it locks one row by a unique column and reads no other row.
        """
        locked = statements.locked_tables(sql) & self._tables.keys()
        outer, inner = statements.without_subqueries(sql)
        parsed = shape(outer)
        if parsed and parsed.table in locked:
            unique = self._tables[parsed.table].unique
            if any(column in unique for column, _ in parsed.equal):
                return statements.read_tables(inner) & self._tables.keys(), locked
        if parsed and parsed.table not in locked:
            return frozenset(), frozenset()
        read = statements.read_tables(sql)
        if statements.kind(sql) == "UPDATE":
            read |= locked
        if statements.kind(sql) == "INSERT" and not {"conflict", "update"} <= statements.words(sql):
            return frozenset(), frozenset()
        return read & self._tables.keys(), locked

    def locked_together(self, sql: str, rows: int) -> dict[str, bool]:
        """Return the tables whose rows a statement locks, and whether it locks several of each."""
        words = statements.words(sql)
        locked = self._with_parts(sql, rows) & self._tables.keys()
        several = dict.fromkeys(sorted(locked), rows > 1)
        further = [*locked]
        while further:
            table = self._tables[further.pop()]
            cascades = table.cascades if "delete" in words else set()
            if "update" in words and (table.name not in locked or words & table.keys):
                cascades = cascades | table.follows
            if {"truncate", "cascade"} <= words:
                cascades = cascades | table.linked
            further += cascades - several.keys()
            several |= dict.fromkeys(cascades, True)
        return several

    def locked_rows(self, step: Step, table: str) -> set[RowSet]:
        """Return the rows of a table that a step has locked; one with its SQL if not known."""
        _, row = self.row(step.sql, step.params)
        if row and row.table == table:
            return {row}
        unique = self._tables[table].unique
        for index, column in enumerate(step.columns):
            if column in unique and step.rows:
                values = (_normal(row[index], unique[column]) for row in step.rows)
                return {RowSet(table, column, value or "") for value in values}
        return {RowSet(table, "", step.sql)}

    def _with_parts(self, sql: str, rows: int) -> Set[str]:
        """Return the tables and views whose rows a statement locks, with those that they have."""
        locked: dict[str, None] = dict.fromkeys(sorted(statements.locked_tables(sql)))
        several = rows > 1 or statements.whole_tables(sql)
        for name in (names := [*locked]):
            # A row of a table is in one of its partitions; of a view it may be in several tables.
            if several or name not in self._tables:
                names += self._parts.get(name, set()) - locked.keys()
                locked |= dict.fromkeys(names)
        return locked.keys()

    def checked_late(self) -> Set[str]:
        return {table.name for table in self._tables.values() if table.checked_late}

    def keeps(self, sql: str, params: Any, row: RowSet) -> bool:
        """Whether a statement gives the value of a row's unique column to no other row."""
        parsed = shape(sql)
        if parsed is None or parsed.table != row.table:
            return False
        kind = self._tables[row.table].unique[row.column]
        for column, constant in parsed.assigned:
            if column == row.column:
                value = constant and _normal(constant.value(params), kind)
                if value != row.value:
                    return False
        return True

    def assigns(self, sql: str, row: RowSet) -> bool:
        """Whether a statement sets the unique column of a row."""
        parsed = shape(sql)
        return parsed is None or any(column == row.column for column, _ in parsed.assigned)


def _normal(value: Any, kind: str) -> str | None:
    """Return a text that is the same for equal values of a column; None if that is not known."""
    if kind in ("int2", "int4", "int8"):
        number = isinstance(value, int) and not isinstance(value, bool)  # psycopg's Int4 is one
        if number or (type(value) is str and re.fullmatch(r"-?\d{1,18}", value)):
            return str(int(value))
    elif kind in ("text", "varchar") and type(value) is str:
        return value
    elif kind == "uuid" and type(value) in (str, uuid.UUID):
        try:
            return str(uuid.UUID(str(value)))
        except ValueError:
            return None
    return None
