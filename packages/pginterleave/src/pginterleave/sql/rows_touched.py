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
from pginterleave.sql.single_row import parse_simple_statement
from pginterleave.steps import Step


class RowSet(NamedTuple):
    """The row of a table in which a unique column has a value, or all rows of the table."""

    table: str  # "*": every table
    column: str = ""
    value: str = ""


RowSets = tuple[RowSet, ...]
LocksSeveral = dict[str, bool]  # the locked tables: whether a statement locks several rows of each
EVERYWHERE: Final[RowSets] = (RowSet("*"),)


def do_overlap(row_sets: RowSets, others: RowSets) -> bool:
    """Whether some row may be in both."""
    for rows, other in product(row_sets, others):
        have_other_values = rows.column == other.column and rows.value != other.value
        if "*" in (rows.table, other.table):
            return True
        if rows.table == other.table and not have_other_values:
            return True
    return False


# The tables, and whether they are plain: a write to one has no effect elsewhere through a rule, a
# trigger, a partition, or a sequence that only a text or a domain names. Also whether a constraint
# is checked after a row is written: two rows may then meet.
TABLES = """
    SELECT oid::bigint, relname, relkind = 'r' AND NOT relhasrules AND NOT relrowsecurity
        AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = pg_class.oid AND NOT tgisinternal)
        AND NOT EXISTS (SELECT FROM pg_inherits WHERE pg_class.oid IN (inhrelid, inhparent))
        AND NOT EXISTS (SELECT FROM pg_attrdef WHERE adrelid = pg_class.oid
            AND pg_get_expr(adbin, adrelid) ~ 'nextval.*::text')
        AND NOT EXISTS (SELECT FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
            WHERE attrelid = pg_class.oid AND typdefault ~ 'nextval'),
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
    UNION ALL SELECT refobjid::bigint, objid::bigint  -- the sequence of an identity column
    FROM pg_depend WHERE deptype = 'i' AND classid = 'pg_class'::regclass
        AND refclassid = 'pg_class'::regclass
"""
# The columns that are unique by themselves, with their types; "" for a type that is not built in.
UNIQUE_COLUMNS = """
    SELECT indrelid::bigint, attname, CASE WHEN pg_type.oid < 16384 THEN typname ELSE '' END
    FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
        JOIN pg_type ON pg_type.oid = atttypid
        LEFT JOIN pg_collation ON pg_collation.oid = attcollation
    WHERE indrelid >= 16384 AND indisunique AND indimmediate AND indisvalid AND indnkeyatts = 1
        AND indpred IS NULL AND indexprs IS NULL AND coalesce(collisdeterministic, true)
"""
# The columns whose change also locks, checks or moves what belongs to other rows: those that a
# unique index or an exclusion constraint is made from, such as what a foreign key refers to, those
# of foreign keys, and those that a sequence fills.
KEY_COLUMNS = """
    WITH keys (oid, number) AS (
        SELECT indrelid, unnest(indkey) FROM pg_index WHERE indisunique OR indisexclusion
        UNION ALL
        -- What its expressions and its predicate use. Of a whole row no column is noted there.
        SELECT indrelid, refobjsubid FROM pg_index JOIN pg_depend ON objid = indexrelid
            AND classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass
            AND refobjid = indrelid WHERE indisunique OR indisexclusion
        UNION ALL
        SELECT indrelid, attnum FROM pg_index JOIN pg_attribute ON attrelid = indrelid
        WHERE (indisunique OR indisexclusion)
            AND concat(indexprs::text, indpred::text) ~ ':varattno 0 '
        UNION ALL SELECT conrelid, unnest(conkey) FROM pg_constraint WHERE contype = 'f'
        UNION ALL
        SELECT adrelid, adnum FROM pg_attrdef WHERE pg_get_expr(adbin, adrelid) ~ 'nextval'
        UNION ALL SELECT attrelid, attnum FROM pg_attribute WHERE attidentity <> ''
    )
    SELECT DISTINCT oid::bigint, attname FROM keys JOIN pg_attribute ON attrelid = oid
        AND attnum = number WHERE oid >= 16384
"""
# The generated columns, stored or virtual, each with a column that it is computed from.
GENERATED_COLUMNS = """
    SELECT adrelid::bigint, generated.attname, source.attname FROM pg_attrdef
        JOIN pg_attribute AS generated ON generated.attrelid = adrelid AND generated.attnum = adnum
        JOIN pg_depend ON classid = 'pg_attrdef'::regclass AND objid = pg_attrdef.oid
            AND refclassid = 'pg_class'::regclass AND refobjid = adrelid
        JOIN pg_attribute AS source ON source.attrelid = adrelid AND source.attnum = refobjsubid
    WHERE generated.attgenerated <> '' AND source.attnum <> generated.attnum
"""
# Tables, with the tables that a DELETE, and an UPDATE of a key, cascade to.
CASCADES = """
    SELECT confrelid::bigint, conrelid::bigint, confdeltype IN ('c', 'n', 'd'),
        confupdtype IN ('c', 'n', 'd')
    FROM pg_constraint WHERE contype = 'f'
"""
# Views, with the tables that they read; and tables, with their partitions.
PARTS = """
    SELECT views.relname, read.relname FROM pg_rewrite
        JOIN pg_class AS views ON views.oid = ev_class AND views.relkind = 'v'
        JOIN pg_depend ON objid = pg_rewrite.oid AND classid = 'pg_rewrite'::regclass
            AND refclassid = 'pg_class'::regclass
        JOIN pg_class AS read ON read.oid = refobjid AND read.oid <> views.oid
    WHERE views.oid >= 16384
    UNION SELECT whole.relname, part.relname FROM pg_inherits
        JOIN pg_class AS whole ON whole.oid = inhparent JOIN pg_class AS part ON part.oid = inhrelid
"""


@dataclass
class KnownTable:
    """A table of the catalogue."""

    name: str
    plain: bool = False  # whether a write has no effect through a rule, trigger or partition
    unique: dict[str, str] = field(default_factory=dict)  # columns, with their types
    keys: set[str] = field(default_factory=set)  # columns, see KEY_COLUMNS
    sources: dict[str, set[str]] = field(default_factory=dict)  # by generated column
    linked: Set[str] = frozenset()  # the tables that a write may touch, with this one
    cascades: set[str] = field(default_factory=set)  # the tables that a DELETE cascades to
    follows: set[str] = field(default_factory=set)  # the tables that an UPDATE of a key cascades to
    checked_late: bool = False  # whether a constraint is checked after a row is written

    def find_sources(self, column: str) -> Set[str]:
        """Return the columns whose change changes this one: with itself, what generates it."""
        return {column} | self.sources.get(column, set())


class Tables:
    """The tables of a database, by their names."""

    def __init__(self) -> None:
        self._tables: dict[str, KnownTable] = {}
        self._parts: dict[str, set[str]] = {}  # of views, and of tables with partitions

    def learn(self, ask: Callable[[str], Iterable[Any]]) -> None:
        """Read the tables from the catalogue; `ask` sends one of the queries above."""
        by_oid: dict[int, KnownTable] = {}
        for oid, name, plain, checked_late in ask(TABLES):
            is_in_two_schemas = name in self._tables
            table = self._tables.setdefault(name, KnownTable(name))
            table.plain = plain and not is_in_two_schemas
            table.checked_late |= checked_late
            by_oid[oid] = table
        unknown = KnownTable("")  # in place of a temporary table, and others
        for oid, column, type_name in ask(UNIQUE_COLUMNS):
            by_oid.get(oid, unknown).unique[column] = type_name
        for oid, column in ask(KEY_COLUMNS):
            by_oid.get(oid, unknown).keys.add(column)
        for oid, column, source in ask(GENERATED_COLUMNS):
            by_oid.get(oid, unknown).sources.setdefault(column, set()).add(source)
        for table in self._tables.values():  # what generates a key column is about other rows, too
            table.keys |= set().union(*(table.find_sources(column) for column in table.keys))
        for oid, referring_oid, on_delete, on_update in ask(CASCADES):
            table = by_oid.get(oid, unknown)
            referring = by_oid.get(referring_oid, unknown)
            if on_delete and referring.name:
                table.cascades.add(referring.name)
            if on_update and referring.name:
                table.follows.add(referring.name)
        for name, part in ask(PARTS):
            self._parts.setdefault(name, set()).add(part)
        # Tables that are linked, directly or through others, are a group. An oid that is no known
        # table, such as a sequence's, joins the tables that share it.
        groups: dict[object, set[Any]] = {}  # by each member
        for oids in ask(LINKS):
            members = [by_oid[oid].name if oid in by_oid else oid for oid in oids]
            joined = set().union(*(groups.get(member, {member}) for member in members))
            groups.update(dict.fromkeys(joined, joined))
        for table in self._tables.values():
            table.linked = groups.get(table.name, {table.name}) & self._tables.keys()

    def find_row(self, sql: str, params: Any) -> RowSet | None:
        """Return the only row of a plain table that a simple statement is about, or None."""
        simple = parse_simple_statement(sql)
        table = self._tables.get(simple.table) if simple else None
        if simple is None or table is None or not table.plain:
            return None
        for column, constant in simple.equalities:
            value = _normalize(constant.find_value(params), table.unique.get(column, ""))
            if value is not None:
                return RowSet(table.name, column, value)
        return None

    def _find_named_tables(self, sql: str) -> list[KnownTable]:
        """Return the tables that a statement names; none if it also names an unknown one."""
        names = statements.find_names(sql) & self._tables.keys()
        is_known = statements.find_tables(sql) <= names
        return [self._tables[name] for name in sorted(names)] if is_known else []

    def find_touched(self, sql: str, params: Any) -> tuple[RowSets, RowSets]:
        """Return the rows that a statement of pure calls reads, and those it locks or writes."""
        tables = self._find_named_tables(sql)
        if not tables:
            return EVERYWHERE, EVERYWHERE
        row = self.find_row(sql, params)
        reads: RowSets = (row,) if row else tuple(sorted(RowSet(table.name) for table in tables))
        if not all(table.plain for table in tables):
            return reads, EVERYWHERE
        # A row lock, or an UPDATE of no key, affects rows of its own table only. Another statement
        # also locks or changes rows of the tables that refer to this one, or that it refers to.
        simple = parse_simple_statement(sql)
        table = self._tables.get(simple.table) if simple else None
        if simple and table and simple.kind != "DELETE":
            assigned = {column for column, _ in simple.assigned}
            if assigned.isdisjoint(table.keys):
                return reads, (row,) if row else (RowSet(table.name),)
        linked = set().union(*(table.linked for table in tables))
        return reads, tuple(sorted(map(RowSet, linked)))

    def find_read_before_locked(self, sql: str) -> tuple[Set[str], Set[str]]:
        """Return the tables that a statement reads before it locks rows, and those it locks."""
        locked = statements.find_locked_tables(sql) & self._tables.keys()
        outer, subqueries = statements.split_off_subqueries(sql)
        simple = parse_simple_statement(outer)
        unique = self._tables[simple.table].unique if simple and simple.table in locked else {}
        if simple and any(column in unique for column, _ in simple.equalities):
            # It finds its row whatever others commit: only its subqueries may be out of date.
            return statements.find_read_tables(subqueries) & self._tables.keys(), locked
        kind = statements.find_kind(sql)
        is_upsert = {"conflict", "update"} <= statements.find_words(sql)
        if (simple and simple.table not in locked) or (kind == "INSERT" and not is_upsert):
            return frozenset(), frozenset()  # it locks no row that was there before
        read = statements.find_read_tables(sql)
        if kind == "UPDATE":
            read |= locked
        return read & self._tables.keys(), locked

    def find_locks(self, sql: str, rows: int) -> LocksSeveral:
        """Return the tables whose rows a statement locks; `rows` is the driver's row count."""
        words = statements.find_names(sql)  # and columns
        locked = self._find_locked_parts(sql, rows) & self._tables.keys()
        locks_several = dict.fromkeys(sorted(locked), rows > 1)
        further = [*locked]  # the tables whose cascades are not added yet
        while further:
            table = self._tables[further.pop()]
            cascades: set[str] = set()
            if "delete" in words:
                cascades |= table.cascades
            if "update" in words and (table.name not in locked or words & table.keys):
                cascades |= table.follows
            if {"truncate", "cascade"} <= words:
                cascades |= table.linked
            further += cascades - locks_several.keys()
            locks_several |= dict.fromkeys(cascades, True)
        return locks_several

    def find_locked_rows(self, step: Step, table: str) -> set[RowSet]:
        """Return the rows of a table that a step has locked; if unknown, the SQL stands for one."""
        row = self.find_row(step.sql, step.params)
        if row and row.table == table:
            return {row}
        unique = self._tables[table].unique
        for index, column in enumerate(step.columns):
            if column in unique and step.rows:
                values = (_normalize(result[index], unique[column]) for result in step.rows)
                return {RowSet(table, column, value or "") for value in values}
        return {RowSet(table, "", step.sql)}

    def _find_locked_parts(self, sql: str, rows: int) -> Set[str]:
        """Return the tables and views that a statement locks, and the parts that it may lock."""
        locked = {*statements.find_locked_tables(sql)}
        locks_several = rows > 1 or statements.list_whole_locked_tables(sql)
        further = [*locked]
        while further:
            name = further.pop()
            # A row of a table is in one of its partitions; of a view it may be in several tables.
            is_view = name not in self._tables
            if locks_several or is_view:
                parts = self._parts.get(name, set()) - locked
                further += parts
                locked |= parts
        return locked

    def find_checked_late(self) -> Set[str]:
        """Return the tables with a constraint that is checked after a row is written."""
        return {table.name for table in self._tables.values() if table.checked_late}

    def does_keep_value(self, sql: str, params: Any, row: RowSet) -> bool:
        """Whether a statement sets the unique column of a row not at all, or to the same value."""
        simple = parse_simple_statement(sql)
        if simple is None or simple.table != row.table:
            return False
        table = self._tables[row.table]
        for column, constant in simple.assigned:
            value = constant.find_value(params) if constant else None
            is_same = _normalize(value, table.unique[row.column]) == row.value
            if column in table.find_sources(row.column) and not (column == row.column and is_same):
                return False
        return True

    def does_assign_value(self, sql: str, row: RowSet) -> bool:
        """Whether a simple statement may set the unique column of a row."""
        simple = parse_simple_statement(sql)
        sources = self._tables[row.table].find_sources(row.column)
        return simple is not None and any(column in sources for column, _ in simple.assigned)


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
