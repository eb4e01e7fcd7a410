"""Compares the ends of schedules: ids by what they mean, and without what clock and chance set.

An *id* is a value of a column that a sequence, the clock or chance sets, or that refers to such a
column. An id that was there before the processes is compared as it is. Two ends are equal if one
becomes the other when its new ids are exchanged. For this, each row and each process's value gets a
label: a hash of its other parts, of the labels of the rows that it refers to, and of those that
refer to it. Ends are equal if their labels are. The label of a new row may have its place among the
new rows of the table, by the id that a sequence has set.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Literal

from pginterleave.judging.end_states import Column, EndState, EndStates, Row, Structure
from pginterleave.judging.values import Leaf, Node, Path, find_differing, list_leaves

HASH_ROUNDS = 4  # over so many references a difference between two rows is seen
NEW = "new"  # instead of a new id
MAX_SHOWN = 4  # columns of a row, or parts of a value, in a sentence

Item = tuple[str, int]  # a row, by its table and number; or, with "", the value of a process
Edges = dict[Item, list[tuple[str, Item]]]  # to the rows that an item refers to, with the columns
NewIds = dict[tuple[Column, str], Item]  # the row of each new id, by its column and value
Form = tuple[tuple[object, ...], ...]  # the sorted labels of each table's rows, and of the values
# Which new rows of a table have their place in their label: the first and the last, or all.
Marked = Literal["ends", "all"]


class Comparison:
    """Knows which columns are ids, and which parts of the processes' values chance decides."""

    def __init__(self, states: EndStates) -> None:
        self.states = states
        self.by_chance: set[Column] = set()
        self.parts_by_chance: set[tuple[str, Path]] = set()  # with the name of the value
        self.sequences: set[str] = set()  # those whose last value is compared
        # The columns of ids, after what they were found from: a structure, and len(by_chance).
        self._cached: tuple[Structure | None, int, set[Column]] = None, 0, set()

    def learn(self, first: EndState, second: EndState) -> None:
        """Note what differs between two ends of a serial order: clock or chance sets it."""
        structure = self.states.structure
        differ: set[Column] = set()
        for end, other in ((first, second), self.states.firsts):
            for table in end.rows.keys() & other.rows.keys():
                for column in structure.columns[table]:
                    values = Counter(row[column] for row in end.rows[table])
                    if values != Counter(row[column] for row in other.rows[table]):
                        differ.add(column)
        ids = self._find_id_columns()
        references = structure.references
        known = differ | ids
        self.by_chance |= {column for column in differ - ids if references.get(column) not in known}
        ids = self._find_id_columns()
        new_ids = {*self._find_new_ids(first), *self._find_new_ids(second)}
        new_texts = {text for _, text in new_ids}
        for name, value in first.values.items():
            leaves = dict(list_leaves(value))
            for path in find_differing(value, second.values[name]):
                leaf = leaves.get(path)
                is_id = isinstance(leaf, Leaf) and (
                    _strip_quotes(leaf) in new_texts or self._find_column(leaf) in ids
                )
                if not is_id:
                    self.parts_by_chance.add((name, path))

    def make_form(
        self,
        end: EndState,
        tables: Collection[str],
        ids_of: Column | None,
        ordered: Collection[str] = (),
        marked: Marked = "all",
    ) -> Form:
        """Return the labels of the rows of some tables, and of the values.

        A number that a process returned, and that is a new id in the column `ids_of`, stands for
        the row of this id. The labels of the new rows of the tables `ordered` have their places.
        """
        tokens: dict[Item, object] = {}
        edges: Edges = defaultdict(list)
        new_ids = self._find_new_ids(end, tables)
        references = self.states.structure.references
        ids = self._find_id_columns()
        for table in tables:
            for number, row in enumerate(self._get_rows(end, table)):
                item = table, number
                tokens[item] = table, self._write_row(end, row)
                for column, value in row.items():
                    target = references.get(column) if column in ids else None
                    if target and value and (target, value) in new_ids:
                        edges[item].append((column.name, new_ids[target, value]))
        for table in ordered:
            new_rows = self.list_new_rows(end, table)
            for number, item in enumerate(new_rows):
                if marked == "all":
                    tokens[item] = tokens[item], number
                elif number in (0, len(new_rows) - 1):
                    tokens[item] = tokens[item], number == 0
        for number, (name, returned) in enumerate(end.values.items()):
            item = "", number
            parts = []
            for path, leaf in list_leaves(returned):
                rows = self._find_rows(leaf, ids_of, new_ids)
                edges[item] += [(repr(path), row) for row in rows]
                parts.append((path, NEW if rows else self._write_leaf(end, name, path, leaf)))
            tokens[item] = parts
        labels: dict[str, list[str]] = {table: [] for table in ("", *tables)}
        for (table, _), label in _hash_items(tokens, edges).items():
            labels[table].append(label)
        tables_with_labels = sorted((table, *sorted(labels[table])) for table in tables)
        last_values = [(name, end.sequences.get(name)) for name in sorted(self.sequences)]
        return (*tables_with_labels, tuple(labels[""]), *last_values)

    def list_new_rows(self, end: EndState, table: str) -> list[Item]:
        """Return the new rows of a table in the order of their ids; none if there is only one."""
        by_id = {
            int(value): item
            for (column, value), item in self._find_new_ids(end, [table]).items()
            if column in self.states.structure.generated and value.isdecimal()
        }
        return [by_id[value] for value in sorted(by_id)] if len(by_id) > 1 else []

    def find_referring_table(self, end: EndState, table: str) -> str:
        """Return a table with a row from before that refers to one of several new rows, or ""."""
        structure = self.states.structure
        new_ids = self._find_new_ids(end, [table]) if self.list_new_rows(end, table) else {}
        for column, target in structure.references.items():
            if target.table != table or column.table not in end.rows:
                continue
            rows = end.rows[column.table]
            ids = [other for other in structure.generated if other.table == column.table]
            if not ids and len(rows) > len(self.states.firsts[0].rows.get(column.table, [])):
                continue  # it is not known which of the rows are new
            for row in rows:
                own_ids = [(id_column, row[id_column]) for id_column in ids]
                is_old = all(id_ and self._write_id(end, of, id_) != NEW for of, id_ in own_ids)
                if is_old and (target, row[column]) in new_ids:
                    return column.table
        return ""

    def _find_rows(self, leaf: Leaf | str, ids_of: Column | None, new_ids: NewIds) -> list[Item]:
        """Return the rows that a part of a value may name by their new ids."""
        if isinstance(leaf, str):
            return []
        columns: list[Column | None] = [ids_of]
        if not leaf.is_number:
            column = self._find_column(leaf)
            columns = [column, self.states.structure.references.get(column)]
            if leaf.column is None:  # such as a UUID
                columns = [*self.by_chance]
        text = _strip_quotes(leaf)
        return [new_ids[column, text] for column in columns if column and (column, text) in new_ids]

    def list_differences(self, end: EndState, serial: EndState) -> Iterator[str]:
        """Yield what differs as a reader sees it; nothing if only references do."""
        for name in sorted(self.sequences):
            at = end.sequences.get(name)
            serial_at = serial.sequences.get(name)
            if at != serial_at:
                yield f"the sequence {name} is at {at}; one after the other it is at {serial_at}"
        for name in end.values:
            parts = self._write_parts(end, name)
            serial_parts = self._write_parts(serial, name)
            if parts == serial_parts:
                continue
            if parts.keys() == serial_parts.keys():  # only the parts that differ
                differ = [path for path in parts if parts[path] != serial_parts[path]]
                parts = {path: parts[path] for path in differ}
                serial_parts = {path: serial_parts[path] for path in differ}
            yield f"{name} {_join_parts(parts)}; one after the other it {_join_parts(serial_parts)}"
        for table in sorted(end.rows.keys() | serial.rows.keys()):
            yield from self._list_row_differences(table, end, serial)

    def _write_parts(self, end: EndState, name: str) -> dict[Path, str]:
        """Return the parts of what a process returned or raised; each path begins with the verb."""
        value = end.values[name]
        kind = value.kind if isinstance(value, Node) else ""
        leaves = [(path, leaf) for path, leaf in list_leaves(value) if isinstance(leaf, Leaf)]
        return {(kind, *path): self._write_leaf(end, name, path, leaf) for path, leaf in leaves}

    def _list_row_differences(self, table: str, end: EndState, serial: EndState) -> Iterator[str]:
        """Yield what differs in a table; a row is compared with the most similar serial one."""
        names = [column.name for column in self.states.structure.columns[table]]
        rows = Counter(self._write_row(end, row) for row in self._get_rows(end, table))
        serial_rows = Counter(self._write_row(serial, row) for row in self._get_rows(serial, table))
        missing = sorted((serial_rows - rows).elements())
        for row in sorted((rows - serial_rows).elements()):
            if not missing:
                yield f"{table} has a row {_join_row(names, row)}; one after the other it has none"
                continue
            nearest = max(missing, key=lambda candidate: sum(map(str.__eq__, candidate, row)))
            missing.remove(nearest)
            for name, value, serial_value in zip(names, row, nearest, strict=True):
                if value != serial_value:
                    yield f"{table}.{name} is {value}; one after the other it is {serial_value}"
        for row in missing:
            yield f"{table} has no row {_join_row(names, row)}; one after the other it has one"

    def _get_rows(self, end: EndState, table: str) -> list[Row]:
        """Return the rows at the end, or, if nothing was written there, from before."""
        return end.rows[table] if table in end.rows else self.states.firsts[0].rows.get(table, [])

    def _find_id_columns(self) -> set[Column]:
        """Return the columns that a sequence, the clock or chance sets, and references to these."""
        structure = self.states.structure
        if self._cached[:2] != (structure, len(self.by_chance)):
            ids = structure.generated | self.by_chance
            references = structure.references
            while more := {column for column in references if references[column] in ids} - ids:
                ids |= more
            self._cached = structure, len(self.by_chance), ids
        return self._cached[2]

    def _find_new_ids(self, end: EndState, tables: Collection[str] | None = None) -> NewIds:
        """Return the new ids in some tables, or in all that were written."""
        ids = self._find_id_columns()
        new_ids = {}
        for table in end.rows if tables is None else tables:
            for number, row in enumerate(self._get_rows(end, table)):
                for column, value in row.items():
                    if column in ids and value and self._write_id(end, column, value) == NEW:
                        new_ids[column, value] = table, number
        return new_ids

    def _write_row(self, end: EndState, row: Row) -> tuple[str, ...]:
        """Return the values of a row as they are compared, with NEW for new ids."""
        ids = self._find_id_columns()
        texts = []
        for column, value in row.items():
            if value is None:
                texts.append("NULL")
            else:
                texts.append(self._write_id(end, column, value) if column in ids else value)
        return tuple(texts)

    def _write_id(self, end: EndState, column: Column, value: str) -> str:
        """Return NEW, an id from before, or its number (#3) if setup makes other ids each time."""
        structure = self.states.structure
        ids = self._find_id_columns()
        while structure.references.get(column) in ids and column not in structure.generated:
            column = structure.references[column]  # from which the id comes
        if column in self.by_chance:
            return value if value in self.states.find_constant_values(column) else NEW
        known = end.ids if column.table in end.rows else self.states.firsts[0].ids
        number = known.get(column, {}).get(value)
        if number is None:
            return NEW
        return f"#{number + 1}" if column in self.states.drifting else value

    def _write_leaf(self, end: EndState, name: str, path: Path, leaf: Leaf | str) -> str:
        """Return a part of the value `name` as it is compared: NEW, if chance decides it."""
        if any((name, path[:length]) in self.parts_by_chance for length in range(len(path) + 1)):
            return NEW
        if isinstance(leaf, str):
            return leaf
        column = self._find_column(leaf)
        if column not in self._find_id_columns():
            return leaf.text
        return self._write_id(end, column, _strip_quotes(leaf))

    def _find_column(self, leaf: Leaf) -> Column:
        """Return the column of a model's field; of another value, one that does not exist."""
        table, name = leaf.column or ("", "")
        return Column(self.states.structure.tables.get(table, ""), name)


def _hash_items(tokens: dict[Item, object], edges: Edges) -> dict[Item, str]:
    """Return the label of each item: a hash of its token, and of the labels around it."""
    labels = {item: _hash(token) for item, token in tokens.items()}
    back = defaultdict(list)
    for item, targets in edges.items():
        for name, target in targets:
            back[target].append((name, item))
    for _ in range(HASH_ROUNDS if back else 0):
        labels = {
            item: _hash(
                labels[item],
                sorted((name, labels[target]) for name, target in edges[item]),
                sorted((name, labels[source]) for name, source in back[item]),
            )
            for item in tokens
        }
    return labels


def _hash(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def _strip_quotes(leaf: Leaf) -> str:
    return leaf.text.strip("'")


def _join_row(names: list[str], row: tuple[str, ...]) -> str:
    return f"({_join_first(f'{name} = {text}' for name, text in zip(names, row, strict=True))})"


def _join_parts(parts: dict[Path, str]) -> str:
    """Write the parts of what a process returned or raised, with the verb before them."""
    verb = next(iter(parts))[0] if parts else "ended with nothing"
    texts = [f"{name} = {text}" if name else text for (*_, name), text in parts.items()]
    return f"{verb} {_join_first(texts)}"


def _join_first(texts: Iterable[str]) -> str:
    shown = [*texts]
    if len(shown) > MAX_SHOWN:
        shown[MAX_SHOWN:] = ["…"]
    return ", ".join(shown)
