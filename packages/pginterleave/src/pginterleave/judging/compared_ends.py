"""Compares the ends of schedules: ids by what they mean, and without what clock and chance set.

An *id* is a value of a column that a sequence, the clock or chance sets, or that refers to such a
column. An id that was there before the processes is compared as it is, and a time by its distance
from the start of the schedule. Two ends are equal if one
becomes the other when its new ids are exchanged. For this, each row and each process's value gets a
label: a hash of its other parts, of the labels of the rows that it refers to, and of those that
refer to it. Ends are equal if their labels are. The label of a new row may have its place among the
new rows of the table, by the id that a sequence has set.
"""

import functools
import hashlib
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import NamedTuple

from pginterleave.judging.differences import (
    Difference,
    compare_outcomes,
    compare_values,
    count_rows,
    cut_texts,
    write_row,
)
from pginterleave.judging.end_states import Column, EndState, EndStates, Row, Structure
from pginterleave.judging.times import parse_time, write_distance
from pginterleave.judging.values import Leaf, Node, Path, find_differing_paths, list_leaves

HASH_ROUNDS = 4  # so many references away, a different row still changes a label
NEW = "new"  # instead of a new id, or of a value that clock or chance sets
_TEXT = re.compile(r"b?['\"]")  # the beginning of the repr() of a str or of bytes
_NUMBERS = re.compile(r"(?<![\w.])(\d+)(?!\w|\.\d)")


class Item(NamedTuple):
    """A row of a table, or, without a table, the value of a process."""

    table: str
    number: int


Contents = dict[Item, object]  # what is compared of each item, besides its references
Edges = dict[Item, list[tuple[str, Item]]]  # to the rows that an item refers to, with the columns
NewIds = dict[tuple[Column, str], Item]  # the row of each new id, by its column and value
Labels = tuple[tuple[str, str | None], ...]  # of an end's rows, each with its table, and values


class Criteria(NamedTuple):
    """What has to be equal in two ends."""

    tables: frozenset[str]  # whose rows are compared
    number_column: Column | None  # an int in a value may be a new id of it; None: it is no id
    ordered: tuple[str, ...] = ()  # tables whose new rows have to be in the same order
    only_first_and_last: bool = False  # of these tables, only the first and the last new row
    has_ids_in_rows: bool = False  # a number in any column may be a new id of number_column, too


class Comparison:
    """Compares ends, and knows which columns and values differ from run to run."""

    def __init__(self, states: EndStates) -> None:
        self.states = states
        self.varying_columns: frozenset[Column] = frozenset()  # that clock or chance sets
        self.varying_parts: frozenset[tuple[str, Path]] = frozenset()  # with the name of a value
        # Of these, what chance sets. The others are times, with one distance from each start.
        self.chance_columns: frozenset[Column] = frozenset()
        self.chance_parts: frozenset[tuple[str, Path]] = frozenset()
        self.fixed_times: set[datetime] = set()  # which were the same in two runs
        self.sequences: set[str] = set()  # the sequences whose last value is compared

    def get_varying(self) -> tuple[frozenset[object], ...]:
        """Return what differs from run to run: the columns and parts, and those by chance."""
        return self.varying_columns, self.varying_parts, self.chance_columns, self.chance_parts

    def note_varying(self, first: EndState, second: EndState) -> None:
        """Note what differs between two ends of one serial order: clock or chance sets it."""
        self._note_fixed_times(first, second)
        differing = self._find_differing_columns(first, second)
        differing |= self._find_differing_columns(*self.states.initial_states)
        ids = self._find_id_columns() | self.states.structure.type_columns.keys()
        references = self.states.structure.references
        # A reference differs because the column differs that it refers to.
        referring = {c for c in differing if references.get(c) in differing | ids}
        self.varying_columns |= differing - ids - referring
        for pair in ((first, second), self.states.initial_states):
            by_distance = self._find_differing_columns(*pair, by_distance=True)
            self.chance_columns |= self.varying_columns & by_distance
        self._note_varying_parts(first, second)

    def _note_fixed_times(self, first: EndState, second: EndState) -> None:
        """Note the times that are the same in two ends of one serial order: no clock set them."""
        texts: list[set[str | None]] = []
        for end in (first, second):
            values = {value for rows in end.rows.values() for row in rows for value in row.values()}
            leaves = [leaf for value in end.values.values() for _, leaf in list_leaves(value)]
            texts.append(values.union(leaf.text for leaf in leaves if isinstance(leaf, Leaf)))
        times = map(parse_time, texts[0] & texts[1])
        self.fixed_times |= {time for time in times if time}

    def _note_varying_parts(self, first: EndState, second: EndState) -> None:
        """Note the parts of values, other than ids, that differ between two ends of one order.

        Those whose distance from the start differs, too, are set by chance: no clock explains them.
        """
        ids = self._find_id_columns()
        new_texts = {text for end in (first, second) for _, text in self._find_new_ids(end)}
        for name, value in first.values.items():
            if name not in second.values:  # a Mock was called in one of them
                continue
            leaves = dict(list_leaves(value))
            other = dict(list_leaves(second.values[name]))
            for path in find_differing_paths(value, second.values[name]):
                leaf = leaves.get(path)
                if isinstance(leaf, Leaf) and self._find_column(leaf) in ids:
                    continue
                if isinstance(leaf, Leaf) and leaf.text.strip("'") in new_texts:
                    continue  # a new id that was returned, perhaps as a text
                self.varying_parts |= {(name, path)}
                if self._write_part(first, leaf) != self._write_part(second, other.get(path)):
                    self.chance_parts |= {(name, path)}

    def _write_part(self, end: EndState, leaf: Leaf | str | None) -> str:
        """Return a part that varies: the distance of a time, or else the text or the kind."""
        text = leaf.text if isinstance(leaf, Leaf) else leaf or ""
        return self._write_time(end, text) or text

    def _write_time(self, end: EndState, text: str) -> str:
        """Return a time by its distance from the start, or as it is if no clock set it; or ""."""
        time = parse_time(text)
        if time is None:
            return ""
        return text if time in self.fixed_times else write_distance(time, end.began)

    def _find_differing_columns(
        self, first: EndState, second: EndState, *, by_distance: bool = False
    ) -> set[Column]:
        """Return the columns that have other values, or distances of times, in one end."""
        differing = set()
        for table in first.rows.keys() & second.rows.keys():
            for column in self.states.structure.columns[table]:
                counts = []
                for end in (first, second):
                    values = [row[column] for row in end.rows[table]]
                    if by_distance:
                        values = [self._write_time(end, value or "") or value for value in values]
                    counts.append(Counter(values))
                if counts[0] != counts[1]:
                    differing.add(column)
        return differing

    def make_labels(self, end: EndState, criteria: Criteria) -> Labels:
        """Return the labels of all rows and values: they are the same for equal ends."""
        contents: Contents = {}
        edges: Edges = {}
        new_ids = self._find_new_ids(end, criteria.tables)
        for table in criteria.tables:
            for number, row in enumerate(self._get_rows(end, table)):
                item = Item(table, number)
                texts = [*self._write_row(end, row)]
                edges[item] = self._list_references(row, new_ids)
                for place, text in enumerate(texts if criteria.has_ids_in_rows else ()):
                    texts[place], rows = _replace_ids(text, criteria.number_column, new_ids)
                    edges[item] += [(f"in column {place}", row) for row in rows]
                contents[item] = table, texts
        for table in criteria.ordered:
            places = list(enumerate(self.list_new_rows(end, table)))
            if criteria.only_first_and_last:
                places = places[:1] + places[-1:]
            for place, item in places:
                contents[item] = contents[item], place
        for number, (name, value) in enumerate(end.values.items()):
            item = Item(table="", number=number)
            parts = []
            edges[item] = []
            for path, leaf in list_leaves(value):
                rows = self._find_rows(leaf, criteria, new_ids)
                text = NEW if rows else self._write_leaf(end, name, path, leaf)
                if not rows and _TEXT.match(text):
                    text, rows = _replace_ids(text, criteria.number_column, new_ids)
                edges[item] += [(repr(path), row) for row in rows]
                parts.append((path, text))
            contents[item] = parts
        labels = _label_items(contents, edges)
        of_rows = sorted((item.table, label) for item, label in labels.items() if item.table)
        of_values = [("", label) for item, label in labels.items() if not item.table]
        last_values = [(name, end.sequences.get(name)) for name in sorted(self.sequences)]
        return (*of_rows, *of_values, *last_values)

    def _list_references(self, row: Row, new_ids: NewIds) -> list[tuple[str, Item]]:
        """Return the new rows that a row refers to, each with the name of the referring column."""
        references = []
        for column, value in row.items():
            target = self.states.structure.find_target(column, row)
            if target and value and (target, value) in new_ids:
                references.append((column.name, new_ids[target, value]))
        return references

    def list_new_ids(self, end: EndState, column: Column) -> list[str]:
        """Return the new ids in a column."""
        new_ids = self._find_new_ids(end, [column.table])
        return sorted(value for where, value in new_ids if where == column)

    def list_new_rows(self, end: EndState, table: str) -> list[Item]:
        """Return the new rows of a table in the order of their ids, if there are several."""
        by_id = {
            int(value): item
            for (column, value), item in self._find_new_ids(end, [table]).items()
            if column in self.states.structure.generated and value.isdecimal()
        }
        return [by_id[value] for value in sorted(by_id)] if len(by_id) > 1 else []

    def find_referring_table(self, end: EndState, table: str) -> str:
        """Return a table whose old rows refer to one of several new rows of `table`, or ""."""
        new_ids = self._find_new_ids(end, [table]) if self.list_new_rows(end, table) else {}
        for column, target in self.states.structure.references.items():
            if target.table == table and column.table in end.rows:
                old_rows = self._list_old_rows(end, column.table)
                if any((target, row[column]) in new_ids for row in old_rows):
                    return column.table
        return ""

    def _list_old_rows(self, end: EndState, table: str) -> list[Row]:
        """Return the rows of a table that certainly no process has inserted."""
        rows = end.rows[table]
        generated = self.states.structure.generated
        has_ids = any(column.table == table for column in generated)
        if not has_ids and len(rows) > len(self.states.initial_states[0].rows.get(table, [])):
            return []  # any of them may be new
        new_ids = self._find_new_ids(end, [table])
        new_items = {item for (column, _), item in new_ids.items() if column in generated}
        return [row for number, row in enumerate(rows) if Item(table, number) not in new_items]

    def _find_rows(self, leaf: Leaf | str, criteria: Criteria, new_ids: NewIds) -> list[Item]:
        """Return the new rows whose id a part of a value may be."""
        if isinstance(leaf, str):  # the kind of a node
            return []
        columns: list[Column | None] = [*self.varying_columns]  # of a text, such as a UUID
        if leaf.is_number:
            columns = [criteria.number_column]
        elif leaf.column:
            column = self._find_column(leaf)
            columns = [column, self.states.structure.references.get(column)]
        text = leaf.text.strip("'")  # without the quotes of repr()
        keys = [(column, text) for column in columns if column]
        return [new_ids[key] for key in keys if key in new_ids]

    def list_differences(self, end: EndState, other: EndState) -> Iterator[Difference]:
        """Yield each difference from another end, but for references to new rows."""
        yield from self.list_value_differences(end, other)
        for table in sorted(end.rows.keys() | other.rows.keys()):
            yield from self._list_row_differences(table, end, other)
        for name in sorted(self.sequences):
            at, other_at = (str(state.sequences.get(name)) for state in (end, other))
            if at != other_at:
                yield Difference(f"the sequence {name}", at, other_at, verb="is at ")

    def list_value_differences(self, end: EndState, other: EndState) -> Iterator[Difference]:
        """Yield the differences of what the processes returned or raised, and of other values."""
        processes = [name for name in end.values if name.startswith("process ")]
        ends = [[self._write_parts(state, name) for name in processes] for state in (end, other)]
        yield from compare_outcomes(*ends)
        for name in [name for name in end.values | other.values if name not in processes]:
            parts = self._write_parts(end, name)
            yield from compare_values(name, parts, self._write_parts(other, name))

    def _write_parts(self, end: EndState, name: str) -> dict[Path, str]:
        """Return the parts of the value `name`; each path begins with "returned" or "raised"."""
        value = end.values.get(name, Node("is", (("", Leaf("nothing")),)))
        assert isinstance(value, Node)
        leaves = [(path, leaf) for path, leaf in list_leaves(value) if isinstance(leaf, Leaf)]
        parts = {(value.kind, *p): self._write_leaf(end, name, p, leaf) for p, leaf in leaves}
        kinds = [kind for _, kind in list_leaves(value) if isinstance(kind, str)]
        return parts or {(value.kind,): f"an empty {kinds[-1]}"}

    def _list_row_differences(
        self, table: str, end: EndState, other: EndState
    ) -> Iterator[Difference]:
        """Yield what differs in a table; a row is compared with the most similar other one."""
        names = [column.name for column in self.states.structure.columns[table]]
        rows = Counter(self._write_row(end, row) for row in self._get_rows(end, table))
        other_rows = Counter(self._write_row(other, row) for row in self._get_rows(other, table))
        missing = sorted((other_rows - rows).elements())
        unmatched = []
        for row in sorted((rows - other_rows).elements()):
            if not missing:
                unmatched.append(row)
                continue
            nearest = max(missing, key=lambda other: sum(map(operator.eq, other, row)))
            missing.remove(nearest)
            columns = list(zip(names, row, nearest, strict=True))
            same = [(name, value) for name, value, value_there in columns if value == value_there]
            key = next(((name, value) for name, value in same if value not in (NEW, "NULL")), None)
            which = f" {write_row([key], hidden=NEW)}" if key else ""
            for name, value, other_value in columns:
                if value != other_value:
                    what = f"{table}.{name}{which}"
                    yield Difference(what, *cut_texts(value, other_value), verb="is ")
        for row in dict.fromkeys((*unmatched, *missing)):
            what = f"{table} {write_row(zip(names, row, strict=True), hidden=NEW)}"
            counts = (count_rows(rows[row]), count_rows(other_rows[row]))
            yield Difference(what, *counts, verb="has ")

    def _get_rows(self, end: EndState, table: str) -> list[Row]:
        """Return the rows of a table at the end; if it was not written, as setup made them."""
        state = end if table in end.rows else self.states.initial_states[0]
        return state.rows.get(table, [])

    def _find_id_columns(self) -> set[Column]:
        return find_id_columns(self.states.structure, self.varying_columns)

    def _find_new_ids(self, end: EndState, tables: Collection[str] | None = None) -> NewIds:
        """Return the new ids in some tables, or in all that were written."""
        ids = self._find_id_columns()
        new_ids = {}
        for table in end.rows if tables is None else tables:
            for number, row in enumerate(self._get_rows(end, table)):
                for column, value in row.items():
                    if column in ids and value and self._write_id(end, column, value) == NEW:
                        new_ids[column, value] = Item(table, number)
        return new_ids

    def _write_row(self, end: EndState, row: Row) -> tuple[str, ...]:
        """Return the values of a row as they are compared, with NEW for new ids."""
        ids = self._find_id_columns()
        texts = []
        for column, value in row.items():
            # If the column is a reference: the column that it refers to.
            target = self.states.structure.find_target(column, row)
            if value is None:
                texts.append("NULL")
            elif column in ids:
                texts.append(self._write_id(end, column, value))
            else:
                texts.append(self._write_id(end, target, value) if target in ids else value)
        return tuple(texts)

    def _write_id(self, end: EndState, column: Column, value: str) -> str:
        """Return NEW, or an old id: its number (#3) if setup makes other ids each time."""
        structure = self.states.structure
        ids = self._find_id_columns()
        # Follow a reference to the column from which the id comes.
        while structure.references.get(column) in ids and column not in structure.generated:
            column = structure.references[column]
        if column in self.varying_columns:
            if value in self.states.find_constant_values(column):
                return value
            distance = column not in self.chance_columns and self._write_time(end, value)
            return distance or NEW
        state = end if column.table in end.rows else self.states.initial_states[0]
        number = state.old_ids.get(column, {}).get(value)
        if number is None:
            return NEW
        return f"#{number + 1}" if column in self.states.renewed_ids else value

    def _write_leaf(self, end: EndState, name: str, path: Path, leaf: Leaf | str) -> str:
        """Return a part of the value `name` as it is compared: NEW, if clock or chance sets it."""
        path_and_parents = [path[:length] for length in range(len(path) + 1)]
        if (name, path) in self.varying_parts - self.chance_parts:
            return self._write_part(end, leaf)
        if any((name, varying) in self.varying_parts for varying in path_and_parents):
            return NEW
        if isinstance(leaf, str):  # the kind of a node
            return leaf
        column = self._find_column(leaf)
        if column not in self._find_id_columns():
            return leaf.text
        return self._write_id(end, column, leaf.text.strip("'"))

    def _find_column(self, leaf: Leaf) -> Column:
        """Return the column of a model's field; of another value, one that does not exist."""
        table, name = leaf.column or ("", "")
        return Column(self.states.structure.tables.get(table, ""), name)


def _replace_ids(text: str, column: Column | None, new_ids: NewIds) -> tuple[str, list[Item]]:
    """Replace the new ids of a column in a text, such as '/tags/4/' or 'T-0004'.

    Return their rows, too.
    """
    rows = []
    parts = _NUMBERS.split(text) if column else [text]
    for index, part in enumerate(parts):
        if column and (key := (column, part.lstrip("0"))) in new_ids:
            rows.append(new_ids[key])
            parts[index] = NEW
    return "".join(parts), rows


@functools.lru_cache(maxsize=1)
def find_id_columns(structure: Structure, varying: frozenset[Column]) -> set[Column]:
    """Return the columns that a sequence, the clock or chance sets, and references to these."""
    ids = structure.generated | varying
    references = structure.references
    while referring := {column for column in references if references[column] in ids} - ids:
        ids |= referring
    return ids


def _label_items(contents: Contents, edges: Edges) -> dict[Item, str]:
    """Return the label of each item: a hash of its contents and of the items around it."""
    labels = {item: _hash(content) for item, content in contents.items()}
    incoming = defaultdict(list)
    for item, targets in edges.items():
        for name, target in targets:
            incoming[target].append((name, item))
    for _ in range(HASH_ROUNDS if incoming else 0):
        labels = {
            item: _hash(
                labels[item],
                sorted((name, labels[target]) for name, target in edges[item]),
                sorted((name, labels[source]) for name, source in incoming[item]),
            )
            for item in contents
        }
    return labels


def _hash(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
