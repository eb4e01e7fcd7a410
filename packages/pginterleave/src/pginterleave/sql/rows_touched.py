"""Which rows of which tables a statement is about, from its text and PostgreSQL's catalogue.

The result never has too few rows: for an unknown statement it is every row of every table.
"""

import contextlib
import re
import uuid
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, NamedTuple

from pginterleave.sql import statements
from pginterleave.sql.single_row import Shape, find_shape
from pginterleave.steps import Step


class RowSet(NamedTuple):
    """The row of a table in which a unique column has a value, or all rows of the table."""

    table: str
    column: str = ""
    value: str = ""

    def does_overlap(self, other: "RowSet") -> bool:
        """Whether the two may have a row in common."""
        if "*" in (self.table, other.table):
            return True
        same_column = self.column and self.column == other.column
        return self.table == other.table and not (same_column and self.value != other.value)


RowSets = tuple[RowSet, ...]
EVERYWHERE: Final[RowSets] = (RowSet("*"),)


def do_overlap(row_sets: RowSets, others: RowSets) -> bool:
    """Whether the two may have a row in common."""
    return any(rows.does_overlap(other) for rows, other in product(row_sets, others))


class Footprint(NamedTuple):
    """The rows that a statement reads from its snapshot, and the rows that it locks or writes."""

    reads: RowSets
    writes: RowSets


UNKNOWN: Final = Footprint(EVERYWHERE, EVERYWHERE)

# The tables, and whether they are plain: a write to one has no effect elsewhere through a rule, a
# trigger or a partition. Also whether a constraint is checked after a row is written: two rows may
# then meet.
TABLES = """
    SELECT oid::bigint, lower(relname), relkind = 'r' AND NOT relhasrules AND NOT relrowsecurity
        AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = pg_class.oid AND NOT tgisinternal)
        AND NOT EXISTS (SELECT FROM pg_inherits WHERE pg_class.oid IN (inhrelid, inhparent)),
        EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid
            AND (indisexclusion OR indisunique AND NOT indimmediate))
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
    UNION ALL SELECT unnest(ARRAY[conrelid, confrelid])::bigint, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE contype = 'f'
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


@dataclass
class KnownTable:
    """A table of the catalogue."""

    name: str
    words: frozenset[str]  # of the name
    plain: bool = False  # whether a write has no effect through a rule, trigger or partition
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
        for oid, name, plain, checked_late in ask(TABLES):
            is_in_two_schemas = name in self._tables
            table = self._tables.setdefault(name, KnownTable(name, statements.find_words(name)))
            table.plain = plain and not is_in_two_schemas
            table.checked_late |= checked_late
            by_oid[oid] = table
        ignored = KnownTable("", frozenset())  # of another kind, such as temporary
        for oid, column, type_name in ask(UNIQUE_COLUMNS):
            by_oid.get(oid, ignored).unique[column] = type_name
        for oid, definition in ask(KEY_COLUMNS):
            by_oid.get(oid, ignored).keys |= statements.find_words(definition)
        for oid, referring_oid, deletes, updates in ask(CASCADES):
            table = by_oid.get(oid, ignored)
            referring = by_oid.get(referring_oid, ignored)
            if deletes and referring.name:
                table.cascades.add(referring.name)
            if updates and referring.name:
                table.follows.add(referring.name)
        for name, part in ask(PARTS):
            self._parts.setdefault(name, set()).add(part)
        groups: dict[object, set[Any]] = {}  # the linked tables of each: names, or unknown oids
        for oids in ask(LINKS):
            joined = set()
            for oid in oids:
                table_or_oid = by_oid[oid].name if oid in by_oid else oid
                joined |= groups.get(table_or_oid, {table_or_oid})
            groups.update(dict.fromkeys(joined, joined))
        for table in self._tables.values():
            names = groups.get(table.name, {table.name}) & self._tables.keys()
            table.linked = frozenset(names)

    def find_shape_and_row(self, sql: str, params: Any) -> tuple[Shape | None, RowSet | None]:
        """Return the shape of a statement and its only row; None for each that is not known."""
        shape = find_shape(sql)
        table = self._tables.get(shape.table) if shape else None
        if shape is None or table is None or not table.plain:
            return None, None
        for column, constant in shape.equal:
            value = _normalize(constant.value(params), table.unique.get(column, ""))
            if value is not None:
                return shape, RowSet(table.name, column, value)
        return shape, None

    def _find_named_tables(self, sql: str) -> list[KnownTable]:
        """Return the tables that a statement names; none if not all of them are known."""
        words = statements.find_words(sql)
        tables = [table for table in self._tables.values() if table.words <= words]
        known = set().union(*({table.name, *table.words} for table in tables))
        return tables if statements.find_table_words(sql) <= known else []

    def find_footprint(self, sql: str, params: Any) -> Footprint:
        """Return what a single statement reads and writes, if it calls pure functions only."""
        tables = self._find_named_tables(sql)
        if not tables:
            return UNKNOWN
        shape, row = self.find_shape_and_row(sql, params)
        reads: RowSets = (row,) if row else tuple(sorted(RowSet(table.name) for table in tables))
        if shape and not shape.locks:
            return Footprint(reads, ())
        if not all(table.plain for table in tables):
            return Footprint(reads, EVERYWHERE)
        # A row lock, or an UPDATE of no key, affects rows of its own table only. Another statement
        # also locks or changes rows of the tables that refer to this one, or that it refers to.
        if shape and shape.kind != "DELETE":
            assigned = {column for column, _ in shape.assigned}
            if assigned.isdisjoint(self._tables[shape.table].keys):
                return Footprint(reads, (row,) if row else (RowSet(shape.table),))
        linked = set().union(*(table.linked for table in tables))
        return Footprint(reads, tuple(sorted(map(RowSet, linked))))

    def find_read_before_locked(self, sql: str) -> tuple[Set[str], Set[str]]:
        """Return the tables that a statement reads before it locks rows, and those it locks."""
        locked = statements.find_locked_tables(sql) & self._tables.keys()
        outer, subqueries = statements.split_off_subqueries(sql)
        shape = find_shape(outer)
        if shape and shape.table in locked:
            unique = self._tables[shape.table].unique
            if any(column in unique for column, _ in shape.equal):
                return statements.find_read_tables(subqueries) & self._tables.keys(), locked
        kind = statements.find_kind(sql)
        is_upsert = {"conflict", "update"} <= statements.find_words(sql)
        if (shape and shape.table not in locked) or (kind == "INSERT" and not is_upsert):
            return frozenset(), frozenset()
        read = statements.find_read_tables(sql)
        if kind == "UPDATE":
            read |= locked
        return read & self._tables.keys(), locked

    def find_locked_tables(self, sql: str, rows: int) -> dict[str, bool]:
        """Return the tables whose rows a statement locks, and whether it locks several of each."""
        words = statements.find_words(sql)
        locked = self._find_locked_parts(sql, rows) & self._tables.keys()
        several = dict.fromkeys(sorted(locked), rows > 1)
        further = [*locked]
        while further:
            table = self._tables[further.pop()]
            cascades: set[str] = set()
            if "delete" in words:
                cascades |= table.cascades
            if "update" in words and (table.name not in locked or words & table.keys):
                cascades |= table.follows
            if {"truncate", "cascade"} <= words:
                cascades |= table.linked
            further += cascades - several.keys()
            several |= dict.fromkeys(cascades, True)
        return several

    def find_locked_rows(self, step: Step, table: str) -> set[RowSet]:
        """Return the rows that a step has locked; if unknown, one with the SQL as its value."""
        _, row = self.find_shape_and_row(step.sql, step.params)
        if row and row.table == table:
            return {row}
        unique = self._tables[table].unique
        for index, column in enumerate(step.columns):
            if column in unique and step.rows:
                values = (_normalize(row[index], unique[column]) for row in step.rows)
                return {RowSet(table, column, value or "") for value in values}
        return {RowSet(table, "", step.sql)}

    def _find_locked_parts(self, sql: str, rows: int) -> Set[str]:
        """Return the tables and views that a statement locks, with their partitions and tables."""
        locked = {*statements.find_locked_tables(sql)}
        locks_several = rows > 1 or statements.list_whole_locked_tables(sql)
        further = [*locked]
        while further:
            name = further.pop()
            # A row of a table is in one of its partitions; of a view it may be in several tables.
            if locks_several or name not in self._tables:
                parts = self._parts.get(name, set()) - locked
                further += parts
                locked |= parts
        return locked

    def find_checked_late(self) -> Set[str]:
        """Return the tables with a constraint that is checked after a row is written."""
        return {table.name for table in self._tables.values() if table.checked_late}

    def does_keep_value(self, sql: str, params: Any, row: RowSet) -> bool:
        """Whether a statement sets the unique column of a row not at all, or to the same value."""
        shape = find_shape(sql)
        if shape is None or shape.table != row.table:
            return False
        type_name = self._tables[row.table].unique[row.column]
        constants = [constant for column, constant in shape.assigned if column == row.column]
        values = [_normalize(new.value(params), type_name) if new else None for new in constants]
        return all(value == row.value for value in values)

    def does_assign_column(self, sql: str, row: RowSet) -> bool:
        """Whether a statement sets the unique column of a row, or may do so."""
        shape = find_shape(sql)
        return shape is None or any(column == row.column for column, _ in shape.assigned)


def _normalize(value: Any, type_name: str) -> str | None:
    """Return a text that is the same for equal values of a column; None if that is not known."""
    if type_name in ("int2", "int4", "int8"):
        is_number = isinstance(value, int) and not isinstance(value, bool)  # also psycopg's Int4
        if is_number or (type(value) is str and re.fullmatch(r"-?\d{1,18}", value)):
            return str(int(value))
    elif type_name in ("text", "varchar") and type(value) is str:
        return value
    elif type_name == "uuid" and type(value) in (str, uuid.UUID):
        with contextlib.suppress(ValueError):
            return str(uuid.UUID(str(value)))
    return None
