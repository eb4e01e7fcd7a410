"""Which row a simple statement is about, from its text alone: `… WHERE id = %s`.

A simple statement reads and locks rows of one table, and only rows that meet all its conditions. A
statement with a join, a subquery, a comment or a cast is not simple.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from pginterleave.sql.reader import Token, Tokens, read, tokenize

_JOINS = {"with", "union", "intersect", "except", "join", "using", "group", "having", "window"}
_JOINS |= {"distinct", "current", "tablesample", "only", "merge", "conflict", "table"}
_AFTER_CONDITIONS = {"returning", "order", "limit", "offset", "fetch", "for"}


Equalities = tuple[tuple[str, Token], ...]  # columns, each with a constant


@dataclass(frozen=True)
class SimpleStatement:
    """A statement about rows of one table."""

    kind: Literal["SELECT", "UPDATE", "DELETE"]
    table: str
    equalities: Equalities = ()  # the columns that must equal a constant
    has_only_equality: bool = False  # whether one equality is the only condition
    assigned: tuple[tuple[str, Token | None], ...] = ()  # columns; None: not to a constant
    lock: Literal["exclusive", "shared", ""] = "exclusive"  # of its rows
    waits: bool = True  # for a locked row: neither NOWAIT nor SKIP LOCKED


class _NotSimple(Exception):
    """The statement is not simple."""


@functools.lru_cache(maxsize=4096)
def parse_simple_statement(sql: str) -> SimpleStatement | None:
    """Return what a statement says, or None if it is not known to be simple."""
    tokens = tokenize(sql)
    while tokens and tokens[-1].is_mark(";"):
        tokens = tokens[:-1]
    # The driver counts a parameter in a constant or in a comment, too.
    has_unknown_param = any("%" in token.text for token in read(sql) if token.kind != "param")
    has_escape = any(
        token.kind == "literal" or token.text.startswith(("U&", "u&")) for token in tokens
    )
    if has_unknown_param or has_escape or any(token.is_mark(";", "$", "\\") for token in tokens):
        return None
    try:
        return _parse(tokens)
    except _NotSimple:
        return None


def _parse(tokens: Tokens) -> SimpleStatement:
    words = [token.value for token in tokens if token.kind == "word"]
    begins_with_word = bool(tokens) and tokens[0].kind == "word"
    if not begins_with_word or "select" in words[1:] or not _JOINS.isdisjoint(words):
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
        is_number = len(limit) > 1 and limit[1].text.isdigit()
        is_only = is_only and is_number and limit[1].text.strip("0") != ""
    is_only = is_only and {"offset", "fetch"}.isdisjoint(words)
    _, lock_clause = _split_before({"for"}, rest)
    lock_words = [token.value for token in lock_clause if token.kind == "word"]
    lock: Literal["exclusive", "shared", ""] = "shared" if lock_words else ""
    if lock_words[:2] == ["for", "update"] or lock_words[:4] == ["for", "no", "key", "update"]:
        lock = "exclusive"
    waits = "nowait" not in lock_words and "skip" not in lock_words
    return SimpleStatement("SELECT", table, equalities, is_only, lock=lock, waits=waits)


def _list_outside_parentheses(tokens: Tokens) -> Iterator[tuple[int, Token]]:
    """Yield the tokens outside parentheses, each with its index; also `)`, and not `(`."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += token.is_mark("(") - token.is_mark(")")
        if not depth:
            yield index, token


def _split_before(words: set[str], tokens: Tokens) -> tuple[Tokens, Tokens]:
    """Split before the first of these words outside parentheses; without one, return all and ()."""
    for index, token in _list_outside_parentheses(tokens):
        if token.is_word(*words):
            return tokens[:index], tokens[index:]
    return tokens, ()


def _split_table(tokens: Tokens, next_words: set[str]) -> tuple[str, Tokens, Tokens]:
    """Return the name of a table without its schema, its alias, and the tokens after that."""
    has_schema = len(tokens) > 1 and tokens[1].is_mark(".")
    end = 3 if has_schema else 1
    if len(tokens) < end or not tokens[end - 1].is_name():
        raise _NotSimple
    alias, rest = _split_before(next_words, tokens[end:])
    return tokens[end - 1].value, alias, rest


def _find_equalities(table: str, alias: Tokens, clauses: Tokens) -> tuple[Equalities, bool]:
    """Return the columns that must equal a constant, and whether that is the only condition."""
    names = [token.value for token in alias if not token.is_word("as")] or [table]
    has_several_tables = len(names) > 1 or not all(token.is_name() for token in alias)
    first = clauses[0] if clauses else None  # after the table and its alias
    if has_several_tables or (first and first.is_word("from")):
        raise _NotSimple
    conditions = []
    if first and first.is_word("where"):
        where, _ = _split_before(_AFTER_CONDITIONS, clauses[1:])
        conditions = _split_conditions(where)
    equalities = []
    for condition in conditions:
        if [token.value for token in condition[:2]] == [*names, "."]:
            condition = condition[2:]  # the column without its table
        if len(condition) == 3:
            column, operator, value = condition
            if column.is_name() and operator.is_mark("=") and value.is_constant():
                equalities.append((column.value, value))
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
    """Remove the parentheses that are around all tokens."""
    if not tokens or not tokens[0].is_mark("("):
        return tokens
    # The first token outside is the `)` that belongs to the first `(`.
    closing = next((index for index, _ in _list_outside_parentheses(tokens)), None)
    if closing is None:
        raise _NotSimple
    is_around_all = closing == len(tokens) - 1
    return _remove_outer_parentheses(tokens[1:-1]) if is_around_all else tokens


def _find_assigned(changes: Tokens) -> tuple[tuple[str, Token | None], ...]:
    """Return the columns that SET sets, with the value if that is a constant."""
    outside = _list_outside_parentheses(changes)
    commas = [index for index, token in outside if token.is_mark(",")]
    assigned = []
    for before, after in pairwise([-1, *commas, len(changes)]):  # as if commas stood around
        assignment = changes[before + 1 : after]
        if len(assignment) < 3 or not assignment[0].is_name() or not assignment[1].is_mark("="):
            raise _NotSimple
        is_constant = len(assignment) == 3 and assignment[2].is_constant()
        assigned.append((assignment[0].value, assignment[2] if is_constant else None))
    return tuple(assigned)
