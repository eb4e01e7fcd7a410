"""Which row a simple statement is about, from its text alone: `… WHERE id = %s`.

A statement with a shape reads and locks rows of one table, and only rows that meet all its
conditions. A statement with a join, a subquery, a comment or a cast has no shape.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

_TOKEN = re.compile(
    r"""\s+|(?P<quoted>"(?:[^"]|"")*")|(?P<text>'(?:[^']|'')*')|(?P<param>%s|%\(\w+\)s)"""
    r"""|(?P<word>[^\W\d]\w*)|(?P<number>\d+(?![\w.]))|(?P<other>.)""",
    re.DOTALL,
)
_NEVER_SIMPLE = re.compile(r"--|/\*|\$|\\|;.*\S|%%|(?<!\w)([eEbBxX]|[uU]&|[nN])['\"]", re.DOTALL)
_JOINS = {"with", "union", "intersect", "except", "join", "using", "group", "having", "window"}
_JOINS |= {"distinct", "current", "tablesample", "only", "merge", "conflict"}
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


Equal = tuple[tuple[str, Constant], ...]  # columns, each with a constant


@dataclass(frozen=True)
class Shape:
    """A statement about rows of one table.

    `equal` has the columns that must equal a constant; `exact` says that there is no other
    condition. `assigned` has the columns that the statement sets, with the value if that is a
    constant. `strong` says that its row locks exclude each other.
    """

    kind: str
    table: str
    equal: Equal = ()
    exact: bool = False
    assigned: tuple[tuple[str, Constant | None], ...] = ()
    locks: bool = True
    strong: bool = True
    waits: bool = True  # for a locked row: neither NOWAIT nor SKIP LOCKED


class _NotSimple(Exception):
    """The statement has no shape."""


class _Token(NamedTuple):
    kind: str
    text: str
    constant: Constant | None = None

    def is_name(self) -> bool:
        return self.kind in ("name", "word")


Tokens = Sequence[_Token]


@functools.lru_cache(maxsize=4096)
def find_shape(sql: str) -> Shape | None:
    """Return the shape of a statement, or None if it is not known to be simple."""
    if _NEVER_SIMPLE.search(sql.strip().rstrip(";")):
        return None
    try:
        return _parse([*_tokenize(sql)])
    except _NotSimple:
        return None


def _tokenize(sql: str) -> Iterator[_Token]:
    params = 0
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup
        text = match[0]
        if kind is None or text == ";":
            continue
        if kind == "quoted":
            yield _Token("name", text[1:-1].lower())
        elif kind == "param":
            yield _Token(kind, text, Constant(param=params if text == "%s" else text[2:-2]))
            params += 1
        elif kind in ("text", "number"):
            value = text[1:-1].replace("''", "'") if kind == "text" else text
            yield _Token(kind, text, Constant(value))
        else:
            yield _Token(kind, text.lower())


def _parse(tokens: Tokens) -> Shape:
    words = [token.text for token in tokens if token.kind == "word"]
    if not words or "select" in words[1:] or not _JOINS.isdisjoint(words):
        raise _NotSimple
    if words[0] == "update":
        table, rest = _split_table(tokens[1:])
        alias, rest = _split_before({"set"}, rest)
        changes, rest = _split_before({"where", "returning", "from"}, rest[1:])
        equal, exact = _find_conditions(table, alias, rest)
        return Shape("UPDATE", table, equal, exact, _find_assigned(changes))
    if words[:2] == ["delete", "from"]:
        table, rest = _split_table(tokens[2:])
        alias, rest = _split_before({"where", "returning"}, rest)
        equal, exact = _find_conditions(table, alias, rest)
        return Shape("DELETE", table, equal, exact)
    if words[0] == "select":
        return _parse_select(tokens, words)
    raise _NotSimple


def _parse_select(tokens: Tokens, words: list[str]) -> Shape:
    _, rest = _split_before({"from"}, tokens[1:])
    table, rest = _split_table(rest[1:])
    alias, rest = _split_before({"where", *_AFTER_CONDITIONS}, rest)
    equal, exact = _find_conditions(table, alias, rest)
    _, lock_clause = _split_before({"for"}, rest)
    locking = [token.text for token in lock_clause if token.kind == "word"]
    strong = locking[:2] == ["for", "update"] or locking[:4] == ["for", "no", "key", "update"]
    waits = "nowait" not in locking and "skip" not in locking
    _, limit = _split_before({"limit"}, rest)
    if limit:  # a literal LIMIT greater than zero is no further condition
        exact = exact and len(limit) > 1 and limit[1].kind == "number"
        exact = exact and limit[1].text.strip("0") != ""
    exact = exact and {"offset", "fetch"}.isdisjoint(words)
    return Shape("SELECT", table, equal, exact, (), bool(locking), strong, waits)


def _list_outside_parentheses(tokens: Tokens) -> Iterator[tuple[int, _Token]]:
    """Yield the tokens outside parentheses, and closing ones, with their places."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.kind == "other":
            depth += {"(": 1, ")": -1}.get(token.text, 0)
        if not depth:
            yield index, token


def _split_before(words: set[str], tokens: Tokens) -> tuple[Tokens, Tokens]:
    """Split before the first of these words outside parentheses."""
    for index, token in _list_outside_parentheses(tokens):
        if token.kind == "word" and token.text in words:
            return tokens[:index], tokens[index:]
    return tokens, ()


def _split_table(tokens: Tokens) -> tuple[str, Tokens]:
    """Return the name of a table without its schema, and the tokens after the name."""
    has_schema = len(tokens) > 1 and tokens[1].text == "."
    end = 3 if has_schema else 1
    if len(tokens) < end or not tokens[end - 1].is_name():
        raise _NotSimple
    return tokens[end - 1].text, tokens[end:]


def _find_conditions(table: str, alias: Tokens, rest: Tokens) -> tuple[Equal, bool]:
    """Return the columns that must equal a constant, and whether that is the only condition."""
    names = [token.text for token in alias if token.text != "as"] or [table]
    if len(names) > 1 or not all(token.is_name() for token in alias):
        raise _NotSimple  # a list of tables
    if rest and rest[0].text == "from":
        raise _NotSimple
    terms = []
    if rest and rest[0].text == "where":
        conditions, _ = _split_before(_AFTER_CONDITIONS, rest[1:])
        terms = _split_terms(conditions)
    equal = []
    for term in terms:
        if [token.text for token in term[:2]] == [*names, "."]:
            term = term[2:]  # the column without its table
        if len(term) == 3 and term[0].is_name() and term[1].text == "=" and term[2].constant:
            equal.append((term[0].text, term[2].constant))
    return tuple(equal), len(terms) == len(equal) == 1


def _split_terms(tokens: Tokens) -> list[Tokens]:
    """Return the conditions that are joined by AND; an empty one for what has other operators."""
    while tokens and tokens[0].text == "(":
        closing = next((index for index, _ in _list_outside_parentheses(tokens)), None)
        if closing is None:
            raise _NotSimple
        if closing < len(tokens) - 1:
            break
        tokens = tokens[1:-1]
    _, other_operator = _split_before({"or", "between", "case"}, tokens)
    if other_operator:
        return [()]
    first, rest = _split_before({"and"}, tokens)
    return [*_split_terms(first), *_split_terms(rest[1:])] if rest else [first]


def _find_assigned(tokens: Tokens) -> tuple[tuple[str, Constant | None], ...]:
    """Return the columns that SET sets, with the value if that is a constant."""
    outside = _list_outside_parentheses(tokens)
    commas = [index for index, token in outside if token == _Token("other", ",")]
    assigned = []
    for begin, end in pairwise([-1, *commas, len(tokens)]):
        assignment = tokens[begin + 1 : end]
        if len(assignment) < 3 or not assignment[0].is_name() or assignment[1].text != "=":
            raise _NotSimple
        constant = assignment[2].constant if len(assignment) == 3 else None
        assigned.append((assignment[0].text, constant))
    return tuple(assigned)
