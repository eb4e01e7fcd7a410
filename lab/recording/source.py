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
    path: str  # relative to the checkout
    lines: list[tuple[int, str]]


def file_of(strategy: Strategy[Any]) -> Path:
    return Path(inspect.getsourcefile(inspect.unwrap(strategy.function)) or "")


def digest(strategy: Strategy[Any]) -> str:
    """Return the SHA-256 of a strategy's file, in hex: another one when it was changed."""
    return hashlib.sha256(file_of(strategy).read_bytes()).hexdigest()


def source(strategy: Strategy[Any], *, bare: bool = False) -> Source:
    """Return the source of a strategy: its file, or its function where the file holds several.

    `bare` leaves out the docstring, which gives the outcome away.
    """
    function, path = inspect.unwrap(strategy.function), file_of(strategy)
    if path.stem == strategy.name:
        lines, first = path.read_text().splitlines(), 1
    else:
        block, first = inspect.getsourcelines(function)
        lines = "".join(block).splitlines()
    numbered = list(enumerate(lines, start=first))
    if bare:
        start, end = docstring(path, function.__name__)
        numbered = [(number, text) for number, text in numbered if not start <= number <= end]
    if path.is_relative_to(settings.BASE_DIR):
        path = path.relative_to(settings.BASE_DIR)
    return Source(str(path), numbered)


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
    whole, bare = source(strategy).lines, source(strategy, bare=True).lines
    grouped = itertools.groupby(whole, key=lambda line: line not in bare)
    found = [
        SourcePart(is_docstring, [(number, text, at.get(number, "")) for number, text in lines])
        for is_docstring, lines in grouped
    ]
    return [part for part in found if told or not part.is_docstring]


def docstring(path: Path, function: str) -> tuple[int, int]:
    """Return the first and the last line of a function's docstring; (0, 0) without one."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name == function and ast.get_docstring(node):
            return node.body[0].lineno, node.body[0].end_lineno or 0
    return 0, 0


class Line(NamedTuple):
    """A line of a diff; `sign` is "+", "-" or " ", and `number` is None where it is absent."""

    sign: str
    left: int | None
    right: int | None
    text: str


def diff(left: Source, right: Source) -> list[Line]:
    """Return every line of both, those they share once."""
    before, after = ([text for _, text in each.lines] for each in (left, right))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    found = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            pairs = zip(left.lines[a:b], right.lines[c:d], strict=True)
            found += [Line(" ", number, other, text) for (number, text), (other, _) in pairs]
        else:
            found += [Line("-", number, None, text) for number, text in left.lines[a:b]]
            found += [Line("+", None, number, text) for number, text in right.lines[c:d]]
    return found
