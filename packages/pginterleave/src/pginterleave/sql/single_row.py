"""Which row a simple statement is about, from its text alone: `… WHERE id = %s`.

A simple statement reads and locks rows of one table, and only rows that meet all its conditions. A
statement with a join, a subquery, a comment or a cast is not simple.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

_TOKEN = re.compile(
    r"""\s+|(?P<quoted>"(?:[^"]|"")*")|(?P<text>'(?:[^']|'')*')|(?P<param>%s|%\(\w+\)s)"""
    r"""|(?P<word>[^\W\d]\w*)|(?P<number>\d+(?![\w.]))|(?P<other>.)""",
    re.DOTALL,
)
_NEVER_SIMPLE = re.compile(r"--|/\*|\$|\\|;.*\S|%%|(?<!\w)([eEbBxX]|[uU]&|[nN])['\"]", re.DOTALL)
_JOINS = {"with", "union", "intersect", "except", "join", "using", "group", "having", "window"}
_JOINS |= {"distinct", "current", "tablesample", "only", "merge", "conflict", "table"}
_AFTER_CONDITIONS = {"returning", "order", "limit", "offset", "fetch", "for"}


@dataclass(frozen=True)
class Constant:
    """A value in a statement: its text, or the number or name of its parameter."""

    text: str = ""
    param: int | str | None = None

    def value(self, params: Any) -> Any:
        """Return the text, or the value of the parameter; None if that is missing."""
        if self.param is None:
            return self.text
        try:
            return params[self.param]
        except (TypeError, LookupError):
            return None


Equalities = tuple[tuple[str, Constant], ...]  # columns, each with a constant


@dataclass(frozen=True)
class SimpleStatement:
    """A statement about rows of one table."""

    kind: Literal["SELECT", "UPDATE", "DELETE"]
    table: str
    equalities: Equalities = ()  # the columns that must equal a constant
    has_only_equality: bool = False  # whether one equality is the only condition
    assigned: tuple[tuple[str, Constant | None], ...] = ()  # columns; None: not to a constant
    lock: Literal["exclusive", "shared", ""] = "exclusive"  # of its rows
    waits: bool = True  # for a locked row: neither NOWAIT nor SKIP LOCKED


class _NotSimple(Exception):
    """The statement is not simple."""


class _Token(NamedTuple):
    """A word, a name, a constant or another character of a statement."""

    kind: str  # the name of the group in _TOKEN
    text: str  # of words and names in small letters
    constant: Constant | None = None

    def is_name(self) -> bool:
        return self.kind in ("quoted", "word")


Tokens = Sequence[_Token]


@functools.lru_cache(maxsize=4096)
def parse_simple_statement(sql: str) -> SimpleStatement | None:
    """Return what a statement says, or None if it is not known to be simple."""
    if _NEVER_SIMPLE.search(sql.strip().rstrip(";")):
        return None
    try:
        return _parse([*_tokenize(sql)])
    except _NotSimple:
        return None


def _tokenize(sql: str) -> Iterator[_Token]:
    """Yield the tokens of a statement, without white space and semicolons."""
    params = 0  # the number of parameters so far
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup  # None for white space
        text = match[0]
        if kind is None or text == ";":
            continue
        if kind == "quoted":
            yield _Token(kind, text[1:-1].lower())
        elif kind == "param":
            param = params if text == "%s" else text[2:-2]  # the name in %(name)s
            yield _Token(kind, text, Constant(param=param))
            params += 1
        elif kind in ("text", "number"):
            value = text[1:-1].replace("''", "'") if kind == "text" else text
            yield _Token(kind, text, Constant(value))
        else:
            yield _Token(kind, text.lower())


def _parse(tokens: Tokens) -> SimpleStatement:
    words = [token.text for token in tokens if token.kind == "word"]
    if not words or "select" in words[1:] or not _JOINS.isdisjoint(words):
        raise _NotSimple
    if words[0] == "update":
        table, alias, rest = _split_table(tokens[1:], {"set"})
        changes, rest = _split_before({"where", "returning", "from"}, rest[1:])
        equalities, is_only = _find_equalities(table, alias, rest)
        return SimpleStatement("UPDATE", table, equalities, is_only, _find_assigned(changes))
    if words[:2] == ["delete", "from"]:
        table, alias, rest = _split_table(tokens[2:], {"where", "returning"})
        equalities, is_only = _find_equalities(table, alias, rest)
        return SimpleStatement("DELETE", table, equalities, is_only)
    if words[0] == "select":
        return _parse_select(tokens, words)
    raise _NotSimple


def _parse_select(tokens: Tokens, words: list[str]) -> SimpleStatement:
    _, rest = _split_before({"from"}, tokens[1:])
    table, alias, rest = _split_table(rest[1:], {"where", *_AFTER_CONDITIONS})
    equalities, is_only = _find_equalities(table, alias, rest)
    _, limit = _split_before({"limit"}, rest)
    if limit:  # a literal LIMIT greater than zero is no further condition
        is_number = len(limit) > 1 and limit[1].kind == "number"
        is_only = is_only and is_number and limit[1].text.strip("0") != ""
    is_only = is_only and {"offset", "fetch"}.isdisjoint(words)
    _, lock_clause = _split_before({"for"}, rest)
    lock_words = [token.text for token in lock_clause if token.kind == "word"]
    lock: Literal["exclusive", "shared", ""] = "shared" if lock_words else ""
    if lock_words[:2] == ["for", "update"] or lock_words[:4] == ["for", "no", "key", "update"]:
        lock = "exclusive"
    waits = "nowait" not in lock_words and "skip" not in lock_words
    return SimpleStatement("SELECT", table, equalities, is_only, lock=lock, waits=waits)


def _list_outside_parentheses(tokens: Tokens) -> Iterator[tuple[int, _Token]]:
    """Yield the tokens outside parentheses, each with its index; also `)`, and not `(`."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.kind == "other":
            depth += {"(": 1, ")": -1}.get(token.text, 0)
        if not depth:
            yield index, token


def _split_before(words: set[str], tokens: Tokens) -> tuple[Tokens, Tokens]:
    """Split before the first of these words outside parentheses; without one, return all and ()."""
    for index, token in _list_outside_parentheses(tokens):
        if token.kind == "word" and token.text in words:
            return tokens[:index], tokens[index:]
    return tokens, ()


def _split_table(tokens: Tokens, next_words: set[str]) -> tuple[str, Tokens, Tokens]:
    """Return the name of a table without its schema, its alias, and the tokens after that."""
    has_schema = len(tokens) > 1 and tokens[1].text == "."
    end = 3 if has_schema else 1
    if len(tokens) < end or not tokens[end - 1].is_name():
        raise _NotSimple
    alias, rest = _split_before(next_words, tokens[end:])
    return tokens[end - 1].text, alias, rest


def _find_equalities(table: str, alias: Tokens, clauses: Tokens) -> tuple[Equalities, bool]:
    """Return the columns that must equal a constant, and whether that is the only condition."""
    names = [token.text for token in alias if token.text != "as"] or [table]
    has_several_tables = len(names) > 1 or not all(token.is_name() for token in alias)
    first_word = clauses[0].text if clauses else ""  # after the table and its alias
    if has_several_tables or first_word == "from":
        raise _NotSimple
    conditions = []
    if first_word == "where":
        where, _ = _split_before(_AFTER_CONDITIONS, clauses[1:])
        conditions = _split_conditions(where)
    equalities = []
    for condition in conditions:
        if [token.text for token in condition[:2]] == [*names, "."]:
            condition = condition[2:]  # the column without its table
        if len(condition) == 3:
            column, operator, value = condition
            if column.is_name() and operator.text == "=" and value.constant:
                equalities.append((column.text, value.constant))
    return tuple(equalities), len(conditions) == len(equalities) == 1


def _split_conditions(where: Tokens) -> list[Tokens]:
    """Return the conditions that are joined by AND; an empty one for what has other operators."""
    where = _remove_outer_parentheses(where)
    _, other_operator = _split_before({"or", "between", "case"}, where)
    if other_operator:
        return [()]
    first, rest = _split_before({"and"}, where)
    return [*_split_conditions(first), *_split_conditions(rest[1:])] if rest else [first]


def _remove_outer_parentheses(tokens: Tokens) -> Tokens:
    if not tokens or tokens[0].text != "(":
        return tokens
    closing = next((index for index, _ in _list_outside_parentheses(tokens)), None)
    if closing is None:
        raise _NotSimple
    is_around_all = closing == len(tokens) - 1
    return _remove_outer_parentheses(tokens[1:-1]) if is_around_all else tokens


def _find_assigned(changes: Tokens) -> tuple[tuple[str, Constant | None], ...]:
    """Return the columns that SET sets, with the value if that is a constant."""
    outside = _list_outside_parentheses(changes)
    commas = [index for index, token in outside if token == _Token("other", ",")]
    assigned = []
    for before, after in pairwise([-1, *commas, len(changes)]):  # as if commas stood around
        assignment = changes[before + 1 : after]
        if len(assignment) < 3 or not assignment[0].is_name() or assignment[1].text != "=":
            raise _NotSimple
        constant = assignment[2].constant if len(assignment) == 3 else None
        assigned.append((assignment[0].text, constant))
    return tuple(assigned)
