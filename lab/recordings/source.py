"""The source of strategies, with numbered lines, and the diff of two."""

import ast
import difflib
import hashlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from django.conf import settings

from shorturl.strategies.table import Strategy

REVEALING = {"VERDICT", "STEP", "SHOWS", "NOTE"}


class Source(NamedTuple):
    """The numbered lines of a strategy's source."""

    path: str  # relative to the checkout
    lines: list[tuple[int, str]]
    docstring: range  # its line numbers; the docstring reveals the outcome

    @property
    def lines_without_docstring(self) -> list[tuple[int, str]]:
        """The lines without the docstring."""
        return [(number, text) for number, text in self.lines if number not in self.docstring]


def file_of(strategy: Strategy) -> Path:
    return Path(inspect.getsourcefile(inspect.unwrap(strategy.function)) or "")


def hash_source(strategy: Strategy) -> str:
    """Return the first half of the SHA-256 of a strategy's file, in hex."""
    return hashlib.sha256(file_of(strategy).read_bytes()).hexdigest()[:32]


def read_source(strategy: Strategy) -> Source:
    """Return a strategy's source: its file, or only its function if the file has other strategies.

    The constants that say whether it is right are left out: they reveal the outcome.
    """
    function = inspect.unwrap(strategy.function)
    path = file_of(strategy)
    lines = [*enumerate(path.read_text().splitlines(), start=1)]
    docstring = range(0)
    revealing = set[int]()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in REVEALING:
            revealing.update(range(node.lineno - 1, (node.end_lineno or 0) + 1))
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            if path.stem != strategy.name:
                lines = lines[node.lineno - 1 : node.end_lineno]
            if ast.get_docstring(node):
                docstring = range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    if path.is_relative_to(settings.BASE_DIR):
        path = path.relative_to(settings.BASE_DIR)
    return Source(str(path), [line for line in lines if line[0] not in revealing], docstring)


class SourcePart(NamedTuple):
    """The docstring or other lines of a source: number, text, and the processes at the line."""

    is_docstring: bool
    lines: list[tuple[int, str, str]]


def split_source(
    strategy: Strategy,
    *,
    with_docstring: bool,
    processes_by_line: Mapping[int, str] = MappingProxyType({}),
) -> list[SourcePart]:
    """Split a strategy's source into its docstring and the lines before and after it.

    The docstring is left out unless `with_docstring`.
    """
    source = read_source(strategy)
    parts = list[SourcePart]()
    for number, text in source.lines:
        is_docstring = number in source.docstring
        if not parts or parts[-1].is_docstring != is_docstring:
            parts.append(SourcePart(is_docstring, []))
        parts[-1].lines.append((number, text, processes_by_line.get(number, "")))
    return [part for part in parts if with_docstring or not part.is_docstring]


class Line(NamedTuple):
    """A line of a diff: `sign` is "+", "-" or " "; a number is None if that side has no line."""

    sign: str
    left: int | None
    right: int | None
    text: str


def diff_sources(left: Source, right: Source) -> list[Line]:
    """Return the diff of two sources without their docstrings."""
    before = [text for _, text in left.lines_without_docstring]
    after = [text for _, text in right.lines_without_docstring]
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    lines = []
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        removed = left.lines_without_docstring[start:end]
        added = right.lines_without_docstring[other_start:other_end]
        if tag == "equal":
            pairs = zip(removed, added, strict=True)
            lines += [Line(" ", number, other, text) for (number, text), (other, _) in pairs]
        else:
            lines += [Line("-", number, None, text) for number, text in removed]
            lines += [Line("+", None, number, text) for number, text in added]
    return lines
