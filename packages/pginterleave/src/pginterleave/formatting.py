"""Statements, values, exceptions and lines of code as text for a reader."""

import contextlib
import functools
import importlib.util
import os
import re
import traceback
from collections.abc import Sequence, Set
from pathlib import Path
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
    sql = re.sub(r"^SELECT (?:\w+, ){3,}\w+ FROM", "SELECT … FROM", sql)  # of 4 or more
    if params:
        with contextlib.suppress(TypeError, ValueError, KeyError):
            if isinstance(params, dict):
                return sql % {name: format_literal(value) for name, value in params.items()}
            return sql % tuple(map(format_literal, params))
    return sql


def _remove_quotes(sql: str) -> str:
    """Remove the quotes of names, the table from qualified columns, and repeated white space."""
    return re.sub(r"\s+", " ", re.sub(r'"(\w+)"\."(\w+)"', r"\2", sql).replace('"', ""))


def cut_to_columns(text: str, columns: Set[str]) -> str:
    """Return a statement; its long lists and conditions are cut to the key and these columns."""
    clauses = _split(text, _CLAUSE)
    is_insert = clauses[0].startswith("INSERT ") and clauses[0].endswith(")")
    if is_insert and clauses[1:] and clauses[1].startswith("VALUES "):
        clauses[:2] = _cut_insert(clauses[0], clauses[1], columns)
    return " ".join(_cut_clause(clause, columns) for clause in clauses)


def _cut_insert(insert: str, values: str, columns: Set[str]) -> tuple[str, str]:
    """Return both clauses, INSERT … (…) and VALUES …, cut to the first and to these columns."""
    table, _, names = insert[:-1].partition("(")
    parts = _split(names, ", ")
    shown = {number for number, name in enumerate(parts) if number == 0 or name in columns}
    rows = _split(values.removeprefix("VALUES "), ", ")
    cut_rows = [f"({join_shown(_split(row[1:-1], ', '), shown)})" for row in rows]
    return f"{table}({join_shown(parts, shown)})", f"VALUES {', '.join(cut_rows)}"


def _cut_clause(clause: str, columns: Set[str]) -> str:
    """Return a clause; a long list of a SET or RETURNING, or a WHERE, is cut to these columns."""
    word, _, rest = clause.partition(" ")
    if word == "WHERE":
        return f"WHERE {_cut_conditions(rest, columns)}"
    if word not in ("SET", "RETURNING"):
        return clause
    parts = _split(rest, ", ")
    shown = {number for number, part in enumerate(parts) if part.split(" ")[0] in columns}
    if word == "RETURNING":
        shown.add(0)
    return f"{word} {join_shown(parts, shown)}"


def _cut_conditions(text: str, columns: Set[str]) -> str:
    """Return the conditions of a WHERE; of many only those of a key and of these columns."""
    before, *inner = _split(text, r"\(")
    if not before and len(inner) == 1 and text.endswith(")"):  # all is in parentheses
        return f"({_cut_conditions(text[1:-1], columns)})"
    if len(_split(text, " OR | BETWEEN ")) > 1:
        return text
    conditions = _split(text, " AND ")
    numbered = list(enumerate(conditions))
    shown = {n for n, part in numbered if not columns.isdisjoint(re.findall(r"\w+", part))}
    equalities = [n for n, part in numbered if re.match(r"\w+ = ['\d]", part)]
    of_keys = [n for n in equalities if conditions[n].split(" ")[0] in KEYS]
    return join_shown(conditions, shown.union(of_keys or equalities[:1]), " AND ")


def _split(text: str, separator: str) -> list[str]:
    """Split a text where a pattern, the separator, matches outside constants and parentheses."""
    parts = []
    depth = 0  # how many parentheses are open
    begin = 0
    for match in re.finditer(rf"'(?:[^']|'')*'|(?P<separator>{separator})|[()]", text):
        if match["separator"] and depth == 0:
            parts.append(text[begin : match.start()])
            begin = match.end()
        depth += (match[0] == "(") - (match[0] == ")")
    return [*parts, text[begin:]]


def join_shown(parts: Sequence[str], shown: Set[int], separator: str = ", ") -> str:
    """Join parts. Of more than MAX_COLUMNS_SHOWN, only those with the numbers `shown`, from 0."""
    is_short = len(parts) <= MAX_COLUMNS_SHOWN
    texts = [part for number, part in enumerate(parts) if is_short or number in shown]
    return separator.join([*texts, "…"] if len(texts) < len(parts) else texts)


def format_processes(numbers: Sequence[int]) -> str:
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
    specs = map(importlib.util.find_spec, ("django", "asgiref", "psycopg", "psycopg2"))
    folders = [str(Path(spec.origin).parent) + os.sep for spec in specs if spec and spec.origin]
    return (PACKAGE_FOLDER, "<frozen", *folders)


@functools.lru_cache(maxsize=4096)
def is_user_code(filename: str) -> bool:
    """Whether a file is neither the explorer's, nor Django's, nor the standard library's."""
    if filename.startswith(_find_libraries()):
        return False
    return not filename.startswith(STDLIB_FOLDER) or "-packages" in filename
