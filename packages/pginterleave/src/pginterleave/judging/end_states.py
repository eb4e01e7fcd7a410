"""How a schedule has ended: the rows of written tables, and what the processes returned."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pginterleave.explorer_errors import CannotExplore
from pginterleave.judging.values import Value
from pginterleave.processes.rows import MAX_BYTES, Ask, WatchedTable, read_tables, require_counts


class Column(NamedTuple):
    table: str
    name: str


Row = dict[Column, str | None]

# The columns of each table, and whether a sequence sets their values.
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
SEQUENCES = """
    SELECT seqrelid::regclass::text, pg_sequence_last_value(seqrelid)::text FROM pg_sequence
"""


@dataclass(eq=False)
class Structure:
    """The columns of all tables, by the names of the tables."""

    columns: dict[str, list[Column]] = field(default_factory=dict)
    quoted: dict[str, list[str]] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)  # by the name without its schema
    generated: set[Column] = field(default_factory=set)  # by a sequence
    references: dict[Column, Column] = field(default_factory=dict)


@dataclass
class EndState:
    """The end of a schedule, or the state before it."""

    values: dict[str, Value]  # of each process, and of what is compared besides, by name
    rows: dict[str, list[Row]]  # by table
    ids: Mapping[Column, dict[str, int]]  # those from before the schedule, with their places
    sequences: Mapping[str, str | None] = field(default_factory=dict)  # the last value of each


class EndStates:
    """Reads the rows before and after the processes, on the caller's connection."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.structure = Structure()
        self.firsts: list[EndState] = []  # the rows of all tables before the first two schedules
        self.drifting: list[Column] = []  # generated columns that setup fills differently each time
        self._before: dict[int, WatchedTable] = {}
        self._ids: dict[Column, dict[str, int]] = {}
        self._sequences: list[str] = []

    def list_sequences(self) -> list[str]:
        """Return the names of all sequences, as PostgreSQL writes them."""
        if not self._sequences:
            self._sequences = [name for name, _ in self._ask(SEQUENCES, {})]
        return self._sequences

    def begin(self) -> None:
        """Note the state after setup; the first two times, read all tables."""
        if not self.structure.columns:
            require_counts(self._ask)
            self._learn()
        self._before = read_tables(self._ask)
        if len(self.firsts) < 2:
            small = [table for table in self._before.values() if 0 < table.size <= MAX_BYTES]
            first = EndState({}, self._read(table.name for table in small), {})
            generated = sorted(self.structure.generated)
            first.ids = {column: self._number_ids(first.rows, column) for column in generated}
            self.firsts.append(first)
            ids = self.firsts[0].ids
            self.drifting = [column for column in generated if ids.get(column) != first.ids[column]]
        self._ids = {**self.firsts[-1].ids}
        if self.drifting:
            rows = self._read(sorted({column.table for column in self.drifting}))
            self._ids |= {column: self._number_ids(rows, column) for column in self.drifting}

    def read_end(self, values: dict[str, Value], *, sequences: bool) -> EndState:
        """Return the rows of tables written since `begin`; with `sequences`, their values, too."""
        tables = read_tables(self._ask)
        written = [table for oid, table in tables.items() if self._before.get(oid) != table]
        if any(table.name not in self.structure.columns for table in written):
            self._learn()  # a process has made a table
        for table in written:
            if table.size > MAX_BYTES:
                raise CannotExplore(
                    f"The table {table.name} was written, and is larger than {MAX_BYTES} bytes: "
                    "its rows are not compared. Give an invariant."
                )
        last_values = dict(self._ask(SEQUENCES, {})) if sequences else {}
        return EndState(values, self._read(table.name for table in written), self._ids, last_values)

    def read_all(self) -> dict[str, list[Row]]:
        self._learn()
        tables = read_tables(self._ask).values()
        return self._read(table.name for table in tables if table.size <= MAX_BYTES)

    def find_constant_values(self, column: Column) -> set[str | None]:
        """Return the values of a column that were there before each schedule."""
        first, second = self.firsts
        return self._find_values(first.rows, column) & self._find_values(second.rows, column)

    def _learn(self) -> None:
        """Read the structure anew."""
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

    def _find_values(self, rows: dict[str, list[Row]], column: Column) -> set[str | None]:
        return {row[column] for row in rows.get(column.table, ())}

    def _number_ids(self, rows: dict[str, list[Row]], column: Column) -> dict[str, int]:
        """Return the ids of a column, each with its place among them."""
        ids = [text for text in self._find_values(rows, column) if text is not None]
        ids.sort(key=lambda id_: (len(id_), id_))  # as numbers
        return {id_: number for number, id_ in enumerate(ids)}

    def _read(self, tables: Iterable[str]) -> dict[str, list[Row]]:
        """Return the rows of tables, each value as PostgreSQL writes it."""
        rows: dict[str, list[Row]] = {table: [] for table in tables}
        names = [*rows]
        queries = []
        for number, table in enumerate(names):
            texts = ", ".join(f"{name}::text" for name in self.structure.quoted.get(table, ()))
            queries.append(f"SELECT {number}, ARRAY[{texts}]::text[] FROM ONLY {table}")  # noqa: S608
        for number, values in self._ask(" UNION ALL ".join(queries), {}) if queries else ():
            table = names[number]
            columns = self.structure.columns.get(table, ())
            rows[table].append(dict(zip(columns, values, strict=True)))
        return rows
