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
from collections.abc import Collection, Iterator
from typing import Literal

from pginterleave.judging.end_states import Column, EndState, EndStates, Row, Structure
from pginterleave.judging.values import Leaf, Node, Path, find_differing, list_leaves

HASH_ROUNDS = 4  # over so many references a difference between two rows is seen
NEW = "new"  # instead of a new id
MAX_SHOWN = 4  # columns of a row, or parts of a value, in a sentence

Item = tuple[str, int]  # a table, or "" for the value of a process, and the number in it
Edges = dict[Item, list[tuple[str, Item]]]  # to the rows that an item refers to, with the columns
Tokens = tuple[str, ...]  # the values of a row, with NEW for new ids
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
        self._cached: tuple[Structure | None, int, set[Column]] = None, 0, set()

    def learn(self, first: EndState, second: EndState) -> None:
        """Note what differs between two ends of the same serial order."""
        structure = self.states.structure
        differ: set[Column] = set()
        for ends in ((first, second), self.states.firsts):
            for table in ends[0].rows.keys() & ends[1].rows.keys():
                for column in structure.columns[table]:
                    values, others = ([row[column] for row in end.rows[table]] for end in ends)
                    if Counter(values) != Counter(others):
                        differ.add(column)
        ids = self._ids()
        references = structure.references
        known = differ | ids
        self.by_chance |= {column for column in differ - ids if references.get(column) not in known}
        ids = self._ids()
        new = {text for end in (first, second) for *_, text in self._owners(end)}
        for name, value in first.values.items():
            parts = dict(list_leaves(value))
            for path in find_differing(value, second.values[name]):
                leaf = parts.get(path)
                is_id = isinstance(leaf, Leaf) and (_bare(leaf) in new or self._column(leaf) in ids)
                if not is_id:
                    self.parts_by_chance.add((name, path))

    def form(
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
        owners = self._owners(end, tables)
        references = self.states.structure.references
        ids = self._ids()
        for table in tables:
            for at, row in enumerate(self._rows(end, table)):
                item = table, at
                tokens[item] = table, self._tokens(end, row)
                for column, id_ in row.items():
                    target = references.get(column) if column in ids else None
                    if target and id_ and (owner := owners.get((*target, id_))):
                        edges[item].append((column[1], owner))
        for table in ordered:
            new_rows = self.new_rows(end, table)
            for number, item in enumerate(new_rows):
                if marked == "all" or number in (0, len(new_rows) - 1):
                    tokens[item] = tokens[item], number == 0 if marked == "ends" else number
        for number, (name, value) in enumerate(end.values.items()):
            item = "", number
            parts = []
            for path, leaf in list_leaves(value):
                names = self._named_by(leaf, ids_of) if isinstance(leaf, Leaf) else []
                named = [owners[named] for named in names if named in owners]
                edges[item] += [(repr(path), owner) for owner in named]
                parts.append((path, NEW if named else self._token(end, name, path, leaf)))
            tokens[item] = parts
        labels = _hash_items(tokens, edges)
        rows = ((table, *sorted(labels[p] for p in labels if p[0] == table)) for table in tables)
        values = tuple(labels["", number] for number in range(len(end.values)))
        last_values = ((name, end.sequences.get(name)) for name in sorted(self.sequences))
        return (*sorted(rows), values, *last_values)

    def new_rows(self, end: EndState, table: str) -> list[Item]:
        """Return the new rows of a table in the order of their ids; none if there is only one."""
        by_id = {
            int(value): item
            for (name, column, value), item in self._owners(end, [table]).items()
            if (name, column) in self.states.structure.generated and value.isdecimal()
        }
        return [by_id[value] for value in sorted(by_id)] if len(by_id) > 1 else []

    def referring(self, end: EndState, table: str) -> str:
        """Return a table with a row from before that refers to one of several new rows, or ""."""
        structure = self.states.structure
        owners = self._owners(end, [table])
        for (name, column), (target, target_column) in structure.references.items():
            if target != table or name not in end.rows or not self.new_rows(end, table):
                continue
            ids = [id_column for id_column in structure.generated if id_column[0] == name]
            grew = len(end.rows[name]) > len(self.states.firsts[0].rows.get(name, []))
            for row in end.rows[name] if ids or not grew else ():
                own_ids = {id_column: row[id_column] for id_column in ids}
                is_old = all(id_ and self._id(end, of, id_) != NEW for of, id_ in own_ids.items())
                if is_old and (target, target_column, row[name, column]) in owners:
                    return name
        return ""

    def _named_by(self, leaf: Leaf, ids_of: Column | None) -> list[tuple[str, str, str]]:
        """Return the columns and the value by which a part of a value may name a row."""
        text = _bare(leaf)
        if leaf.number:
            return [(*ids_of, text)] if ids_of else []
        if leaf.column is None:  # such as a UUID
            return [(*column, text) for column in self.by_chance]
        column = self._column(leaf)
        columns = (column, self.states.structure.references.get(column))
        return [(*named, text) for named in columns if named]

    def differences(self, end: EndState, serial: EndState) -> Iterator[str]:
        """Yield what differs as a reader sees it; nothing if only references do."""
        for name in sorted(self.sequences):
            at = end.sequences.get(name)
            serial_at = serial.sequences.get(name)
            if at != serial_at:
                yield f"the sequence {name} is at {at}; one after the other it is at {serial_at}"
        for name in end.values:
            here, there = (self._parts(state, name) for state in (end, serial))
            if here == there:
                continue
            if here.keys() == there.keys():  # only the parts that differ
                differ = [path for path in here if here[path] != there[path]]
                here, there = ({path: parts[path] for path in differ} for parts in (here, there))
            yield f"{name} {_listed(here)}; one after the other it {_listed(there)}"
        for table in sorted(end.rows.keys() | serial.rows.keys()):
            yield from self._row_differences(table, end, serial)

    def _parts(self, end: EndState, name: str) -> dict[Path, str]:
        """Return the parts of what a process returned or raised; each path begins with the verb."""
        value = end.values[name]
        kind = value.kind if isinstance(value, Node) else ""
        leaves = [(path, leaf) for path, leaf in list_leaves(value) if isinstance(leaf, Leaf)]
        return {(kind, *path): self._token(end, name, path, leaf) for path, leaf in leaves}

    def _row_differences(self, table: str, end: EndState, serial: EndState) -> Iterator[str]:
        names = [name for _, name in self.states.structure.columns[table]]
        here = Counter(self._tokens(end, row) for row in self._rows(end, table))
        there = Counter(self._tokens(serial, row) for row in self._rows(serial, table))
        missing = sorted((there - here).elements())
        for row in sorted((here - there).elements()):
            if not missing:
                yield f"{table} has a row {_shown(names, row)}; one after the other it has none"
                continue
            nearest = max(missing, key=lambda candidate: sum(map(str.__eq__, candidate, row)))
            missing.remove(nearest)
            for name, value, other in zip(names, row, nearest, strict=True):
                if value != other:
                    yield f"{table}.{name} is {value}; one after the other it is {other}"
        for row in missing:
            yield f"{table} has no row {_shown(names, row)}; one after the other it has one"

    def _rows(self, end: EndState, table: str) -> list[Row]:
        """Return the rows at the end, or, if nothing was written there, from before."""
        return end.rows[table] if table in end.rows else self.states.firsts[0].rows.get(table, [])

    def _ids(self) -> set[Column]:
        structure = self.states.structure
        if self._cached[:2] != (structure, len(self.by_chance)):
            ids = structure.generated | self.by_chance
            references = structure.references
            while more := {column for column in references if references[column] in ids} - ids:
                ids |= more
            self._cached = structure, len(self.by_chance), ids
        return self._cached[2]

    def _owners(
        self, end: EndState, tables: Collection[str] | None = None
    ) -> dict[tuple[str, str, str], Item]:
        """Return, by table, column and value, the rows with new ids."""
        ids = self._ids()
        owners = {}
        for table in end.rows if tables is None else tables:
            for number, row in enumerate(self._rows(end, table)):
                for column, value in row.items():
                    if column in ids and value and self._id(end, column, value) == NEW:
                        owners[*column, value] = table, number
        return owners

    def _tokens(self, end: EndState, row: Row) -> Tokens:
        ids = self._ids()
        return tuple(
            "NULL" if value is None else self._id(end, column, value) if column in ids else value
            for column, value in row.items()
        )

    def _id(self, end: EndState, column: Column, value: str) -> str:
        """Return an id that was there before the processes, or NEW."""
        structure = self.states.structure
        while structure.references.get(column) in self._ids() and column not in structure.generated:
            column = structure.references[column]
        if column in self.by_chance:
            return value if value in self.states.constant(column) else NEW
        known = end.ids if column[0] in end.rows else self.states.firsts[0].ids
        number = known.get(column, {}).get(value)
        if number is None:
            return NEW
        return f"#{number + 1}" if column in self.states.drifting else value

    def _token(self, end: EndState, name: str, path: Path, leaf: Leaf | str) -> str:
        if any((name, path[:upto]) in self.parts_by_chance for upto in range(len(path) + 1)):
            return NEW
        if isinstance(leaf, str):
            return leaf
        column = self._column(leaf)
        return self._id(end, column, _bare(leaf)) if column in self._ids() else leaf.text

    def _column(self, leaf: Leaf) -> Column:
        """Return the column of a model's field; of another value, one that does not exist."""
        table, name = leaf.column or ("", "")
        return self.states.structure.tables.get(table, ""), name


def _hash_items(tokens: dict[Item, object], edges: Edges) -> dict[Item, str]:
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


def _bare(leaf: Leaf) -> str:
    return leaf.text.strip("'")


def _shown(columns: list[str], row: Tokens) -> str:
    texts = [f"{name} = {value}" for name, value in zip(columns, row, strict=True)]
    return f"({', '.join(texts[:MAX_SHOWN])}{', …' * (len(texts) > MAX_SHOWN)})"


def _listed(parts: dict[Path, str]) -> str:
    texts = [f"{name} = {text}" if name else text for (*_, name), text in parts.items()]
    kind = next(iter(parts), ("ended with nothing",))[0]
    return f"{kind} {', '.join(texts[:MAX_SHOWN])}{', …' * (len(texts) > MAX_SHOWN)}"
