"""What a process returned or raised, as a tree that can be compared with that of another run."""

import dataclasses
import datetime
import re
import sys
import uuid
from collections.abc import Iterator, Mapping, Set
from typing import Any, NamedTuple

from pginterleave.judging.times import write_time
from pginterleave.steps import Outcome

MAX_DEPTH = 12
_CSRF_TOKEN = re.compile(rb'(name="csrfmiddlewaretoken" value=")\w+')  # another each time
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class Leaf(NamedTuple):
    """A value without parts; `column` names the table and column of a field of a model."""

    text: str
    column: tuple[str, str] | None = None
    is_number: bool = False  # whether it is an int


class Node(NamedTuple):
    """A value with parts, each with its name; "" names an element of a set, or an only part."""

    kind: str
    parts: tuple[tuple[str, "Value"], ...]

    def shape(self) -> tuple[str, ...]:
        """Return the names of the kind and of the parts."""
        return (self.kind, *(name for name, _ in self.parts))


Value = Leaf | Node
Path = tuple[str, ...]


def make_outcome_value(outcome: Outcome) -> Value:
    """Return what a process returned, or the class and the constraint of what it raised."""
    error = outcome.raised
    if error is None:
        return Node("returned", (("", _make_value(outcome.returned, depth=0)),))
    cause: Any = error.__cause__ or error
    constraint = getattr(getattr(cause, "diag", None), "constraint_name", None) or ""
    kind = f"{type(error).__module__}.{type(error).__qualname__}"
    return Node("raised", (("", Leaf(f"{kind} {constraint}".strip())),))


def make_plain_value(value: Any) -> Value:
    """Return a value that is compared besides those that the processes returned.

    A number alone is a number of calls or the like, and no id.
    """
    part = _make_value(value, depth=0)
    part = part._replace(is_number=False) if isinstance(part, Leaf) else part
    return Node("is", (("", part),))


def _make_value(value: Any, depth: int) -> Value:
    """Return a node for a value with parts; a leaf for others, and deeper than MAX_DEPTH."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Leaf(repr(int(value)), is_number=True)
    if value is None or isinstance(value, (bool, float, str, bytes)):
        return Leaf(repr(value))
    if isinstance(value, datetime.datetime):
        return Leaf(write_time(value))
    if depth > MAX_DEPTH:
        return Leaf(type(value).__qualname__)
    name = type(value).__qualname__
    models = sys.modules.get("django.db.models")
    if models and isinstance(value, models.Model):
        return Node(name, tuple(_list_fields(value)))
    if models and isinstance(value, models.QuerySet):
        value = list(value)
    if isinstance(value, Set):
        elements = sorted((_make_value(element, depth + 1) for element in value), key=repr)
        return Node(name, tuple(("", element) for element in elements))
    parts: dict[str, Any]
    if isinstance(value, Mapping):
        name = "dict"  # of whatever class
        parts = {repr(key): value[key] for key in sorted(value, key=repr)}
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif isinstance(value, (list, tuple)):
        name = "list" if isinstance(value, list) else name
        parts = {f"[{index}]": element for index, element in enumerate(value)}
    elif hasattr(value, "status_code") and hasattr(value, "content"):  # a response
        location = getattr(value, "headers", {}).get("Location")  # of a redirect
        content = _CSRF_TOKEN.sub(rb"\1", value.content)
        parts = {"status_code": value.status_code, "Location": location, "content": content}
    elif getattr(type(value), "__repr__", None) is object.__repr__ and hasattr(value, "__dict__"):
        parts = dict(sorted(vars(value).items()))  # an object without a repr of its own
    else:
        return Leaf(_ADDRESS.sub("", repr(value)))
    return Node(name, tuple((part, _make_value(parts[part], depth + 1)) for part in parts))


def _list_fields(model: Any) -> Iterator[tuple[str, Value]]:
    """Yield the name and the value of each field of a model that is loaded."""
    loaded = vars(model)
    for field in model._meta.concrete_fields:
        if field.attname in loaded:
            value = loaded[field.attname]
            is_id = isinstance(value, (int, uuid.UUID))  # which PostgreSQL writes like str()
            text = str(value) if is_id else repr(value)
            if isinstance(value, datetime.datetime):
                text = write_time(value)
            yield field.attname, Leaf(text, (field.model._meta.db_table, field.column))


def find_differing_paths(value: Value, other: Value, path: Path = ()) -> Iterator[Path]:
    """Yield the paths to the parts in which two values differ."""
    if isinstance(value, Node) and isinstance(other, Node) and value.shape() == other.shape():
        for (name, part), (_, other_part) in zip(value.parts, other.parts, strict=True):
            yield from find_differing_paths(part, other_part, (*path, name))
    elif value != other:
        yield path


def list_leaves(value: Value, path: Path = ()) -> Iterator[tuple[Path, Leaf | str]]:
    """Yield every leaf with its path, and for a node its kind, before the leaves of its parts."""
    if isinstance(value, Leaf):
        yield path, value
        return
    yield path, value.kind
    for name, part in value.parts:
        yield from list_leaves(part, (*path, name))
