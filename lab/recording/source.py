"""The source of strategies: with numbered lines, and two of them as a diff."""

import ast
import difflib
import hashlib
import inspect
import itertools
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from django.conf import settings

from shorturl.strategies import Strategy


class Source(NamedTuple):
    """The lines of a strategy's source, with their numbers."""

    path: str  # relative to the checkout
    lines: list[tuple[int, str]]
    docstring: range  # the numbers of the lines that give the outcome away

    @property
    def bare(self) -> list[tuple[int, str]]:
        """The lines but those of the docstring."""
        return [(number, text) for number, text in self.lines if number not in self.docstring]


def file_of(strategy: Strategy[Any]) -> Path:
    return Path(inspect.getsourcefile(inspect.unwrap(strategy.function)) or "")


def digest(strategy: Strategy[Any]) -> str:
    """Return the SHA-256 of a strategy's file, in hex: another one when it was changed."""
    return hashlib.sha256(file_of(strategy).read_bytes()).hexdigest()


def source(strategy: Strategy[Any]) -> Source:
    """Return the source of a strategy: its file, or its function where the file holds several."""
    function, path = inspect.unwrap(strategy.function), file_of(strategy)
    lines, first = path.read_text().splitlines(), 1
    docstring = range(0)
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            if path.stem != strategy.name:
                lines, first = lines[node.lineno - 1 : node.end_lineno], node.lineno
            if ast.get_docstring(node):
                docstring = range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
            break
    if path.is_relative_to(settings.BASE_DIR):
        path = path.relative_to(settings.BASE_DIR)
    return Source(str(path), [*enumerate(lines, start=first)], docstring)


class SourcePart(NamedTuple):
    """Lines of a source, its docstring or the rest: number, text, and which processes are there."""

    is_docstring: bool
    lines: list[tuple[int, str, str]]


def parts(
    strategy: Strategy[Any], *, told: bool, at: Mapping[int, str] = MappingProxyType({})
) -> list[SourcePart]:
    """Return the source of a strategy in parts, with the docstring if `told`.

    `at` has by line the processes that are there.
    """
    whole = source(strategy)
    grouped = itertools.groupby(whole.lines, key=lambda line: line[0] in whole.docstring)
    return [
        SourcePart(is_docstring, [(number, text, at.get(number, "")) for number, text in lines])
        for is_docstring, lines in grouped
        if told or not is_docstring
    ]


class Line(NamedTuple):
    """A line of a diff; `sign` is "+", "-" or " ", and `number` is None where it is absent."""

    sign: str
    left: int | None
    right: int | None
    text: str


def diff(left: Source, right: Source) -> list[Line]:
    """Return every line of both but their docstrings, those they share once."""
    one, two = left.bare, right.bare
    before, after = ([text for _, text in each] for each in (one, two))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    found = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            pairs = zip(one[a:b], two[c:d], strict=True)
            found += [Line(" ", number, other, text) for (number, text), (other, _) in pairs]
        else:
            found += [Line("-", number, None, text) for number, text in one[a:b]]
            found += [Line("+", None, number, text) for number, text in two[c:d]]
    return found
