"""Which row a simple statement is about, from its text alone: `… WHERE id = %s`.

A statement with a shape reads and locks rows of one table, and only rows that meet all its
conditions. Other statements have no shape, such as those with a join, a subquery, a comment or a
cast.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

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
    """A value in a statement: its text, or the place or name of its parameter."""

    text: str = ""
    place: int | str | None = None

    def value(self, params: Any) -> Any:
        """Return the text, or the value of the parameter; None if that is missing."""
        if self.place is None:
            return self.text
        try:
            return params[self.place]
        except (TypeError, LookupError):
            return None


@dataclass(frozen=True)
class Shape:
    """A statement about rows of one table.

    `equal` has the columns that must equal a constant; `exact` says that there is no other
    condition. `assigned` has the columns that the statement sets, with the value if that is a
    constant. `strong` says that its row locks exclude each other.
    """

    kind: str
    table: str
    equal: tuple[tuple[str, Constant], ...] = ()
    exact: bool = False
    assigned: tuple[tuple[str, Constant | None], ...] = ()
    locks: bool = True
    strong: bool = True
    waits: bool = True  # for a locked row: neither NOWAIT nor SKIP LOCKED


class _NotSimple(Exception):
    """The statement has no shape."""


@functools.lru_cache(maxsize=4096)
def shape(sql: str) -> Shape | None:
    """Return the shape of a statement, or None if it is not known to be simple."""
    if _NEVER_SIMPLE.search(sql.strip().rstrip(";")):
        return None
    try:
        return _parse(_tokens(sql))
    except _NotSimple:
        return None


def _tokens(sql: str) -> list[tuple[str, str, Constant | None]]:
    tokens: list[tuple[str, str, Constant | None]] = []
    params = 0
    for match in _TOKEN.finditer(sql):
        kind, text = match.lastgroup, match[0]
        if kind is None or text == ";":
            continue
        constant = None
        if kind == "quoted":
            kind, text = "name", text[1:-1].lower()
        elif kind == "word":
            text = text.lower()
        elif kind == "param":
            constant = Constant(place=params if text == "%s" else text[2:-2])
            params += 1
        elif kind == "text":
            constant = Constant(text[1:-1].replace("''", "'"))
        elif kind == "number":
            constant = Constant(text)
        tokens.append((kind, text, constant))
    return tokens


Tokens = Sequence[tuple[str, str, Constant | None]]


def _parse(tokens: Tokens) -> Shape:
    words = [text for kind, text, _ in tokens if kind == "word"]
    if not words or words.count("select") > (words[0] == "select") or not _JOINS.isdisjoint(words):
        raise _NotSimple
    if words[0] == "update":
        name, rest = _table(tokens[1:])
        start, rest = _split(rest, {"set"})
        changes, rest = _split(rest[1:], {"where", "returning", "from"})
        conditions = _conditions(rest)
        return Shape("UPDATE", name, *_equal(conditions, _names(name, start)), _assigned(changes))
    if words[:2] == ["delete", "from"]:
        name, rest = _table(tokens[2:])
        alias, rest = _split(rest, {"where", "returning"})
        return Shape("DELETE", name, *_equal(_conditions(rest), _names(name, alias)))
    if words[0] == "select":
        _, rest = _split(tokens[1:], {"from"})
        name, rest = _table(rest[1:])
        alias, rest = _split(rest, {"where", *_AFTER_CONDITIONS})
        equal, exact = _equal(_conditions(rest), _names(name, alias))
        _, end = _split(rest, {"for"})
        locking = [text for kind, text, _ in end if kind == "word"]
        strong = locking[:2] == ["for", "update"] or locking[:4] == ["for", "no", "key", "update"]
        waits = "nowait" not in locking and "skip" not in locking
        # There is no LIMIT, or a literal one greater than zero.
        limit = _split(rest, {"limit"})[1]
        has_rows = not limit or any(
            kind == "number" and text.strip("0") != "" for kind, text, _ in limit[1:2]
        )
        exact = exact and {"offset", "fetch"}.isdisjoint(words) and has_rows
        return Shape("SELECT", name, equal, exact, (), bool(end), strong, waits)
    raise _NotSimple


def _outside(tokens: Tokens) -> Iterator[tuple[int, str, str]]:
    """Yield place, kind and text of the tokens outside parentheses, and of closing ones."""
    depth = 0
    for index, (kind, text, _) in enumerate(tokens):
        depth += (text == "(") - (text == ")") if kind == "other" else 0
        if not depth:
            yield index, kind, text


def _split(tokens: Tokens, words: set[str]) -> tuple[Tokens, Tokens]:
    """Split before the first of these words outside parentheses."""
    for index, kind, text in _outside(tokens):
        if kind == "word" and text in words:
            return tokens[:index], tokens[index:]
    return tokens, ()


def _table(tokens: Tokens) -> tuple[str, Tokens]:
    """Return the name of a table without its schema, and the tokens after the name."""
    names, index = [], 0
    while index < len(tokens) and tokens[index][0] in ("name", "word"):
        names.append(tokens[index][1])
        index += 1
        if index == len(tokens) or tokens[index][1] != ".":
            break
        index += 1
    if not names:
        raise _NotSimple
    return names[-1], tokens[index:]


def _names(table: str, alias: Tokens) -> set[str]:
    """Return the qualifier of a column: the alias, or else the table."""
    texts = [text for _, text, _ in alias]
    if texts[:1] == ["as"]:
        texts = texts[1:]
    if len(texts) > 1 or any(kind not in ("name", "word") for kind, _, _ in alias):
        raise _NotSimple  # a list of tables
    return {*texts} or {table}


def _conditions(tokens: Tokens) -> Tokens | None:
    """Return the tokens of the WHERE clause; None if there is none."""
    if not tokens or tokens[0][1] != "where":
        if tokens and tokens[0][1] == "from":
            raise _NotSimple
        return None
    return _split(tokens[1:], _AFTER_CONDITIONS)[0]


def _equal(
    conditions: Tokens | None, names: set[str]
) -> tuple[tuple[tuple[str, Constant], ...], bool]:
    terms = [] if conditions is None else _terms(conditions)
    equal = []
    for term in terms:
        texts = [text for _, text, _ in term]
        if len(term) == 5 and texts[1] == "." and texts[0] in names:
            term, texts = term[2:], texts[2:]
        if len(term) == 3 and texts[1] == "=" and term[0][0] in ("name", "word") and term[2][2]:
            equal.append((texts[0], term[2][2]))
    return tuple(equal), len(terms) == len(equal) == 1


def _terms(tokens: Tokens) -> list[Tokens]:
    """Return the conditions that are joined by AND."""
    while tokens and tokens[0][1] == "(":
        closes = next((index for index, *_ in _outside(tokens)), None)
        if closes is None:
            raise _NotSimple
        if closes < len(tokens) - 1:
            break
        tokens = tokens[1:-1]
    if _split(tokens, {"or", "between", "case"})[1]:
        return [()]
    first, rest = _split(tokens, {"and"})
    return [*_terms(first), *_terms(rest[1:])] if rest else [first]


def _assigned(tokens: Tokens) -> tuple[tuple[str, Constant | None], ...]:
    commas = [index for index, *token in _outside(tokens) if token == ["other", ","]]
    assigned = []
    for begin, end in pairwise([-1, *commas, len(tokens)]):
        assignment = tokens[begin + 1 : end]
        if (
            len(assignment) < 3
            or assignment[0][0] not in ("name", "word")
            or assignment[1][1] != "="
        ):
            raise _NotSimple
        assigned.append((assignment[0][1], assignment[2][2] if len(assignment) == 3 else None))
    return tuple(assigned)
