"""How a schedule has ended: the rows of written tables, and what the processes returned."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pginterleave.explorer_errors import CannotExplore
from pginterleave.judging.generic_keys import (
    list_generic_keys,
    list_keys_of_types,
    list_model_keys,
)
from pginterleave.judging.values import Value
from pginterleave.processes.clocks import RealClock
from pginterleave.processes.rows import (
    MAX_BYTES,
    Ask,
    WatchedTable,
    read_sizes,
    read_tables,
    require_counts,
)


class Column(NamedTuple):
    table: str
    name: str


Row = dict[Column, str | None]

# The columns of all tables: the table with its schema and without, the name, the name in quotes if
# it needs them, and whether a sequence sets the values.
COLUMNS = """
    SELECT attrelid::regclass::text, relname, attname::text, quote_ident(attname),
        attidentity <> '' OR coalesce(pg_get_expr(adbin, adrelid) LIKE 'nextval(%', false)
    FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
    WHERE attnum > 0 AND NOT attisdropped AND relkind IN ('r', 'm') AND pg_class.oid >= 16384
    ORDER BY attrelid, attnum
"""
# Foreign keys of one column, with the column that each refers to.
REFERENCES = """
    SELECT conrelid::regclass::text, mine.attname::text, confrelid::regclass::text,
        theirs.attname::text
    FROM pg_constraint
        JOIN pg_attribute AS mine ON mine.attrelid = conrelid AND mine.attnum = conkey[1]
        JOIN pg_attribute AS theirs ON theirs.attrelid = confrelid AND theirs.attnum = confkey[1]
    WHERE contype = 'f' AND cardinality(conkey) = 1
"""
CONTENT_TYPES = "SELECT id::text, app_label, model FROM django_content_type"
SEQUENCES = """
    SELECT seqrelid::regclass::text, pg_sequence_last_value(seqrelid)::text FROM pg_sequence
"""


@dataclass(eq=False)
class Structure:
    """The columns of all tables, by the names of the tables."""

    columns: dict[str, list[Column]] = field(default_factory=dict)
    quoted: dict[str, list[str]] = field(default_factory=dict)  # the columns' names, for SQL
    tables: dict[str, str] = field(default_factory=dict)  # names, by the name without its schema
    generated: set[Column] = field(default_factory=set)  # by a sequence
    references: dict[Column, Column] = field(default_factory=dict)
    # For GenericForeignKeys: the column of the content type, by that of the object's id. And by the
    # id of each type, the column of its primary key.
    type_columns: dict[Column, Column] = field(default_factory=dict)
    keys_of_types: dict[str, Column] = field(default_factory=dict)

    def find_target(self, column: Column, row: Row) -> Column | None:
        """Return the column to which a value of a row refers, if it does."""
        type_column = self.type_columns.get(column)
        if type_column is None:
            return self.references.get(column)
        return self.keys_of_types.get(row[type_column] or "")


@dataclass
class EndState:
    """The end of a schedule, or the state before it."""

    values: dict[str, Value]  # of "process 1" and so on, and of what is compared besides
    rows: dict[str, list[Row]]  # by table
    old_ids: Mapping[Column, dict[str, int]]  # the ids before the schedule, numbered from 0
    began: float  # the time before the processes ran, in seconds since 1970
    sequences: Mapping[str, str | None] = field(default_factory=dict)  # the last value of each


class EndStates:
    """Reads the rows before and after the processes, on the caller's connection."""

    def __init__(self, ask: Ask, ignored_tables: frozenset[str] = frozenset()) -> None:
        self._ask = ask
        self._ignored_tables = ignored_tables
        self.structure = Structure()
        self.initial_states: list[EndState] = []  # before the first and the second schedule
        self.renewed_ids: list[Column] = []  # the columns in which each setup makes other ids
        self._tables_before: dict[int, WatchedTable] = {}
        self._old_ids: dict[Column, dict[str, int]] = {}
        self._began = 0.0

    def list_sequences(self) -> list[str]:
        """Return the names of all sequences, as PostgreSQL writes them."""
        return [name for name, _ in self._ask(SEQUENCES, {})]

    def begin(self) -> None:
        """Note the state after setup: the time, how often tables were written, and old ids.

        The ids are read before the first two schedules, and later where these have other ones.
        """
        if not self.structure.columns:
            require_counts(self._ask)
            self._read_structure()
        self._began = RealClock.time()
        self._tables_before = read_tables(self._ask)
        if len(self.initial_states) < 2:
            self._read_initial_state()
        rows = self._read_rows(sorted({column.table for column in self.renewed_ids}))
        new_ids = {column: _number_ids(rows, column) for column in self.renewed_ids}
        self._old_ids = {**self.initial_states[-1].old_ids, **new_ids}

    def _read_initial_state(self) -> None:
        """Read the small tables, and find the columns in which setup makes other ids each time."""
        sizes = read_sizes(self._ask, self._tables_before.values())
        small = [oid for oid, size in sizes.items() if 0 < size <= MAX_BYTES]
        rows = self._read_rows(self._tables_before[oid].name for oid in small)
        generated = sorted(self.structure.generated)
        ids = {column: _number_ids(rows, column) for column in generated}
        self.initial_states.append(EndState({}, rows, ids, self._began))
        first_ids = self.initial_states[0].old_ids
        self.renewed_ids = [column for column in generated if first_ids.get(column) != ids[column]]

    def read_end(self, values: dict[str, Value], *, with_sequences: bool) -> EndState:
        """Return the end: `values`, the rows of all tables written since `begin`, and sequences."""
        tables = read_tables(self._ask)
        written = [table for oid, table in tables.items() if self._tables_before.get(oid) != table]
        written = [table for table in written if table.name not in self._ignored_tables]
        if any(table.name not in self.structure.columns for table in written):
            self._read_structure()  # a process has made a table
        sizes = read_sizes(self._ask, written)
        for table in written:
            if sizes[table.oid] > MAX_BYTES:
                raise CannotExplore(
                    f"The table {table.name} was written, and is larger than {MAX_BYTES} bytes: "
                    "its rows are not compared. Give an invariant."
                )
        last_values = dict(self._ask(SEQUENCES, {})) if with_sequences else {}
        rows = self._read_rows(table.name for table in written)
        return EndState(values, rows, self._old_ids, self._began, last_values)

    def read_all(self) -> dict[str, list[Row]]:
        """Return the rows of all tables that are not too large, by table."""
        self._read_structure()
        tables = read_tables(self._ask)
        sizes = read_sizes(self._ask, tables.values())
        return self._read_rows(tables[oid].name for oid, size in sizes.items() if size <= MAX_BYTES)

    def find_constant_values(self, column: Column) -> set[str | None]:
        """Return the values of a column that it had before both of the first two schedules."""
        first, second = self.initial_states
        return _find_values(first.rows, column) & _find_values(second.rows, column)

    def _read_structure(self) -> None:
        """Read the columns and what refers to what.

        A ForeignKey of a model and a GenericForeignKey need not be known to the database.
        """
        self.structure = structure = Structure()
        for table, relname, name, quoted, is_generated in self._ask(COLUMNS, {}):
            column = Column(table, name)
            structure.columns.setdefault(table, []).append(column)
            structure.quoted.setdefault(table, []).append(quoted)
            structure.tables[relname] = table
            if is_generated:
                structure.generated.add(column)
        for table, name, target_table, target_name in self._ask(REFERENCES, {}):
            structure.references[Column(table, name)] = Column(target_table, target_name)
        tables = structure.tables
        for relname, name, target_relname, target_name in list_model_keys():
            if relname in tables and target_relname in tables:
                target = Column(tables[target_relname], target_name)
                structure.references.setdefault(Column(tables[relname], name), target)
        for relname, id_name, type_name in list_generic_keys():
            if table := tables.get(relname):
                structure.type_columns[Column(table, id_name)] = Column(table, type_name)
        if structure.type_columns and "django_content_type" in tables:
            types = {(app, name): type_id for type_id, app, name in self._ask(CONTENT_TYPES, {})}
            for app, name, relname, key in list_keys_of_types():
                if relname in tables and (app, name) in types:
                    structure.keys_of_types[types[app, name]] = Column(tables[relname], key)

    def _read_rows(self, tables: Iterable[str]) -> dict[str, list[Row]]:
        """Return the rows of tables, each value as PostgreSQL writes it."""
        rows_by_table: dict[str, list[Row]] = {}
        for table in tables:
            texts = ", ".join(f"{name}::text" for name in self.structure.quoted.get(table, ()))
            columns = self.structure.columns.get(table, [])
            rows = self._ask(f"SELECT ARRAY[{texts}]::text[] FROM ONLY {table}", {})  # noqa: S608
            rows_by_table[table] = [dict(zip(columns, row, strict=True)) for (row,) in rows]
        return rows_by_table


def _find_values(rows: dict[str, list[Row]], column: Column) -> set[str | None]:
    return {row[column] for row in rows.get(column.table, ())}


def _number_ids(rows: dict[str, list[Row]], column: Column) -> dict[str, int]:
    """Return the ids in a column, each with its number in their order."""
    ids = [text for text in _find_values(rows, column) if text is not None]
    ids.sort(key=lambda text: (len(text), text))  # "10" comes after "9"
    return {text: number for number, text in enumerate(ids)}
