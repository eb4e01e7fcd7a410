"""The source of strategies, with numbered lines, and the diff of two."""

import ast
import difflib
import hashlib
import inspect
import itertools
import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from django.conf import settings

from shorturl.strategies.table import Strategy

BASE = Path(__file__).parents[2]


class Source(NamedTuple):
    """The numbered lines of a strategy's source."""

    path: str  # relative to the checkout
    lines: list[tuple[int, str]]
    docstring: range  # its line numbers; it reveals the outcome

    @property
    def bare(self) -> list[tuple[int, str]]:
        """The lines without the docstring."""
        return [(number, text) for number, text in self.lines if number not in self.docstring]


def file_of(strategy: Strategy) -> Path:
    return Path(inspect.getsourcefile(inspect.unwrap(strategy.function)) or "")


def digest(strategy: Strategy, shared: str = "") -> str:
    """Return the SHA-256 of everything that decides what an exploration finds, in hex.

    That is the strategy's file and what shared_digest() returns, which a caller may pass.
    """
    both = file_of(strategy).read_bytes() + (shared or shared_digest()).encode()
    return hashlib.sha256(both).hexdigest()


def shared_digest() -> str:
    """Return the SHA-256 of the service, the races, what explores them, and the explorer's version.

    Of the service all but the strategies, as each is in the digest of its own. The files are read
    each time: a service that runs has imported them before they were changed.
    """
    found = hashlib.sha256(version("pginterleave").encode())
    for folder in ("lab/races", "lab/exploring", "shorturl"):
        for path, folders, names in os.walk(BASE / folder):
            # A folder of tests may have an environment of its own, with thousands of files.
            folders[:] = sorted({*folders} - {"tests", "strategies"})
            for name in sorted(names):
                if name.endswith(".py"):
                    found.update(Path(path, name).read_bytes())
    return found.hexdigest()


def source(strategy: Strategy) -> Source:
    """Return a strategy's source: its file, or its function if the file has several."""
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
    """The docstring or other lines of a source: number, text, and the processes at the line."""

    is_docstring: bool
    lines: list[tuple[int, str, str]]


def parts(
    strategy: Strategy, *, told: bool, at: Mapping[int, str] = MappingProxyType({})
) -> list[SourcePart]:
    """Return the source of a strategy in parts, with the docstring if `told`.

    `at` maps a line to the processes at it.
    """
    whole = source(strategy)
    grouped = itertools.groupby(whole.lines, key=lambda line: line[0] in whole.docstring)
    return [
        SourcePart(is_docstring, [(number, text, at.get(number, "")) for number, text in lines])
        for is_docstring, lines in grouped
        if told or not is_docstring
    ]


class Line(NamedTuple):
    """A line of a diff: `sign` is "+", "-" or " "; a number is None if that side has no line."""

    sign: str
    left: int | None
    right: int | None
    text: str


def diff(left: Source, right: Source) -> list[Line]:
    """Return the diff of two sources without their docstrings."""
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
