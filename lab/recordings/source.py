"""The source of strategies, with numbered lines, and the diff of two."""

import ast
import difflib
import hashlib
import inspect
from collections.abc import Mapping
from itertools import dropwhile
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
        return [(number, text) for number, text in self.lines if number not in self.docstring]


def file_of(strategy: Strategy) -> Path:
    return Path(inspect.getsourcefile(inspect.unwrap(strategy.function)) or "")


def hash_source(strategy: Strategy) -> str:
    """Return the first half of the SHA-256 of a strategy's file, in hex."""
    return hashlib.sha256(file_of(strategy).read_bytes()).hexdigest()[:32]


def read_source(strategy: Strategy) -> Source:
    """Return a strategy's source: its file, or only its function if the file has other strategies.

    It begins after the imports. The constants that say whether it is right are left out, because
    they reveal the outcome.
    """
    function = inspect.unwrap(strategy.function)
    path = file_of(strategy)
    text = path.read_text()
    shown = {*range(1, len(text.splitlines()) + 1)}
    docstring = range(0)
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_revealing(node):
            shown -= {node.lineno - 1, *_line_numbers_of(node)}  # with the empty line before
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            if path.stem != strategy.name:  # the file has other strategies
                shown = {*_line_numbers_of(node)}
            if ast.get_docstring(node):
                docstring = _line_numbers_of(node.body[0])
    numbered = enumerate(text.splitlines(), start=1)
    lines = [(number, line) for number, line in numbered if number in shown]
    lines = list(dropwhile(lambda numbered_line: not numbered_line[1], lines))
    return Source(str(path.relative_to(settings.BASE_DIR)), lines, docstring)


def _is_revealing(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in REVEALING


def _line_numbers_of(node: ast.stmt) -> range:
    """Return the numbers of the lines of a statement."""
    return range(node.lineno, (node.end_lineno or 0) + 1)


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
    before = left.lines_without_docstring
    after = right.lines_without_docstring
    matcher = difflib.SequenceMatcher(
        None, [text for _, text in before], [text for _, text in after], autojunk=False
    )
    lines = []
    for tag, left_start, left_end, right_start, right_end in matcher.get_opcodes():
        removed = before[left_start:left_end]
        added = after[right_start:right_end]
        if tag == "equal":
            for (number, text), (other, _) in zip(removed, added, strict=True):
                lines.append(Line(" ", number, other, text))
        else:
            lines += [Line("-", number, None, text) for number, text in removed]
            lines += [Line("+", None, number, text) for number, text in added]
    return lines
