"""Statements, values, exceptions and lines of code as text for a reader."""

import contextlib
import functools
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Sequence, Set
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE_FOLDER = str(Path(__file__).parent) + os.sep
STDLIB_FOLDER = str(Path(contextlib.__file__).parent) + os.sep
# A string constant, whose text stays unchanged: '…', E'…' with backslashes, $tag$…$tag$.
CONSTANT = re.compile(r"([eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\$(\w*)\$.*?\$\2\$)", re.DOTALL)

_CLAUSE = r" (?=(?:SET|FROM|WHERE|VALUES|ON|RETURNING|GROUP|ORDER|LIMIT|FOR)\b)"
MAX_COLUMNS_SHOWN = 3  # a row, a list of columns or a WHERE with more is cut in a drawing
KEYS = ("id", "key")  # columns that often identify a row


def format_literal(value: object) -> str:
    """Write a parameter as a constant of SQL."""
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).lower()
    for number in (int, float):  # psycopg's Int4 is an int, and so is a member of IntegerChoices
        if isinstance(value, number):
            return repr(number(value))
    return repr(str(value))


def format_statement(sql: str, params: Any) -> str:
    """Return SQL for a reader: with its parameters, without quotes, with long column lists cut."""
    parts = []
    end = 0
    for constant in CONSTANT.finditer(sql):
        parts += [_remove_quotes(sql[end : constant.start()]), constant[0]]
        end = constant.end()
    sql = "".join([*parts, _remove_quotes(sql[end:])]).strip()
    sql = re.sub(r"^SELECT (?:\w+, ){3,}\w+ FROM", "SELECT … FROM", sql)
    if params:
        with contextlib.suppress(TypeError, ValueError, KeyError):
            if isinstance(params, dict):
                return sql % {name: format_literal(value) for name, value in params.items()}
            return sql % tuple(map(format_literal, params))
    return sql


def cut_to_columns(text: str, columns: Set[str]) -> str:
    """Return a statement; its long lists and conditions are cut to the key and these columns."""
    inserted: Set[int] = set()  # the places of the columns of an INSERT that are shown
    clauses = _split(text, _CLAUSE)
    for number, clause in enumerate(clauses):
        word, _, rest = clause.partition(" ")
        has_values = clauses[1:] and clauses[1].startswith("VALUES")
        if word == "INSERT" and rest.endswith(")") and has_values:
            table, _, names = rest[:-1].partition("(")
            parts = _split(names, ", ")
            inserted = {n for n, name in enumerate(parts) if n == 0 or name in columns}
            clauses[number] = f"INSERT {table}({join_kept(parts, inserted)})"
        elif word == "VALUES" and inserted:
            rows = [join_kept(_split(row[1:-1], ", "), inserted) for row in _split(rest, ", ")]
            clauses[number] = "VALUES " + ", ".join(f"({row})" for row in rows)
        elif word in ("SET", "RETURNING"):
            parts = _split(rest, ", ")
            kept = {n for n, part in enumerate(parts) if part.split(" ")[0] in columns}
            if word == "RETURNING":
                kept.add(0)
            clauses[number] = f"{word} {join_kept(parts, kept)}"
        elif word == "WHERE":
            clauses[number] = f"WHERE {_cut_conditions(rest, columns)}"
    return " ".join(clauses)


def _cut_conditions(text: str, columns: Set[str]) -> str:
    """Return conditions; of many in a row only those of a key and of these columns."""
    begin, *more = _split(text, r"\(")
    if not begin and len(more) == 1 and text.endswith(")"):
        return f"({_cut_conditions(text[1:-1], columns)})"
    parts = _split(text, " AND ")
    if len(_split(text, " OR | BETWEEN ")) > 1:
        return text
    equal = [n for n, part in enumerate(parts) if re.match(r"\w+ = ['\d]", part)]
    keys = [n for n in equal if parts[n].split(" ")[0] in KEYS]
    shown = {n for n, part in enumerate(parts) if not columns.isdisjoint(re.findall(r"\w+", part))}
    return join_kept(parts, shown.union(keys or equal[:1]), " AND ")


def _split(text: str, separator: str) -> list[str]:
    """Split a text where the separator stands outside constants and parentheses."""
    parts = []
    depth = 0
    begin = 0
    for match in re.finditer(rf"'(?:[^']|'')*'|(?P<separator>{separator})|[()]", text):
        if match["separator"] and not depth:
            parts.append(text[begin : match.start()])
            begin = match.end()
        depth += (match[0] == "(") - (match[0] == ")")
    return [*parts, text[begin:]]


def join_kept(parts: Sequence[str], kept: Set[int], joint: str = ", ") -> str:
    """Join the parts; of many only those at these places."""
    shown = [part for n, part in enumerate(parts) if n in kept or len(parts) <= MAX_COLUMNS_SHOWN]
    return joint.join([*shown, "…"] if len(shown) < len(parts) else shown)


def _remove_quotes(sql: str) -> str:
    """Remove the quotes of names, the table from qualified columns, and repeated white space."""
    return re.sub(r"\s+", " ", re.sub(r'"(\w+)"\."(\w+)"', r"\2", sql).replace('"', ""))


def process_names(numbers: Sequence[int]) -> str:
    """Write `process 1`, or `processes 1 and 2`."""
    return ("process " if len(numbers) == 1 else "processes ") + " and ".join(map(str, numbers))


def format_exception(error: BaseException) -> str:
    """Write an exception in a line, with the line of the code under test that raised it."""
    try:
        message = str(error)
    except Exception as broken:
        message = f"(its str() raises {type(broken).__name__})"
    text = f"{type(error).__name__}: {message}".splitlines()[0]
    frames = traceback.extract_tb(error.__traceback__)
    raised = [frame for frame in frames if is_user_code(frame.filename)]
    if not raised or is_database_error(error):
        return text
    return f"{text} ({Path(raised[-1].filename).name}:{raised[-1].lineno})"


def format_traceback(error: BaseException) -> str:
    """Return a traceback without the lines of the explorer and Django, but for the innermost."""
    extracted = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in extracted if not frame.filename.startswith(PACKAGE_FOLDER)]
    kept = [frame for frame in frames[:-1] if is_user_code(frame.filename)] + frames[-1:]
    if not kept:
        return ""
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(kept)]
    return "".join([*lines, *traceback.format_exception_only(error)]).rstrip()


def format_place(filename: str, lineno: int) -> str:
    """Write a line of code, with its path relative to site-packages or the working directory."""
    path = Path(filename)
    for number, part in enumerate(path.parts):
        if part.endswith("-packages"):
            return f"{Path(*path.parts[number + 1 :])}:{lineno}"
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    elif path.is_absolute():
        path = Path(path.name)
    return f"{path}:{lineno}"


def is_database_error(error: BaseException) -> bool:
    """Whether it is an `Error` of PEP 249: each driver defines one, and so does Django."""
    names = {base.__name__ for base in type(error).__mro__}
    return {"Error", "DatabaseError"} <= names or {"Error", "InterfaceError"} <= names


@functools.cache
def _find_libraries() -> tuple[str, ...]:
    """Return the prefixes of the paths of library files, without importing the libraries."""
    specs = map(importlib.util.find_spec, ("django", "psycopg", "psycopg2"))
    folders = [str(Path(spec.origin).parent) + os.sep for spec in specs if spec and spec.origin]
    return (PACKAGE_FOLDER, "<frozen", *folders)


@functools.lru_cache(maxsize=4096)
def is_user_code(filename: str) -> bool:
    """Whether a file is neither the explorer's, nor Django's, nor the standard library's."""
    if filename.startswith(_find_libraries()):
        return False
    return not filename.startswith(STDLIB_FOLDER) or "-packages" in filename


def find_user_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the code under test, from this one outwards."""
    while frame and not is_user_code(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def format_calling_place() -> str:
    """Return " at" the current line of the code under test; "" if that is not known."""
    frame = find_user_frame(sys._getframe(1))
    if frame is None:
        return ""
    return f" at {frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_qualname})"
