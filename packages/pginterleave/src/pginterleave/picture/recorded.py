"""The steps of a schedule as plain data, which can be stored and drawn later."""

import itertools
import re
from collections.abc import Iterator
from typing import Any

from pginterleave.formatting import format_place
from pginterleave.picture.wording import WRITES
from pginterleave.sql.reader import Token, Tokens, tokenize
from pginterleave.steps import Step, Timeline


def record_steps(timeline: Timeline) -> list[dict[str, Any]]:
    """Return what a picture shows of each step.

    Besides the keys of read_columns(), `until` is the number of the step during which this one
    returned, after it had waited for the processes `waited_for`. `pivot` says whether PostgreSQL
    ended the transaction as the pivot of a write skew, `rows` how many rows were returned or
    changed, `where` which line of code sent the step, and `in_transaction` which processes are in
    a transaction after it.
    """
    recorded = []
    in_transaction = dict[int, bool]()  # by process
    for step in timeline:
        # This step, unless it waits, and steps that waited for it.
        returned = [other for other in timeline if other.until == step.number]
        in_transaction |= {other.process: other.in_transaction for other in returned}
        if step.until > step.number:  # it waits, and keeps the locks of its transaction
            in_transaction[step.process] = True
        recorded.append(
            {
                "process": step.process,
                "sql": step.statement(),
                "until": step.until,
                "waited_for": step.waited_for,
                "result": step.result(),
                "error": step.error,
                "message": step.message,
                "pivot": "as a pivot" in step.detail,
                "rows": step.rowcount,
                "where": format_place(step.filename, step.lineno) if step.filename else "",
                **read_columns(step),
                "observed": "" if step.observed is None else str(step.observed),
                "in_transaction": [p for p, is_inside in in_transaction.items() if is_inside],
            }
        )
    return recorded


OPERATORS = ("+", "-", "*", "/", "|")
Columns = dict[str, str | None]


def read_columns(step: Step) -> dict[str, Any]:
    """Return which tables and columns a step has read and written, with their values.

    Values are texts, or None for NULL. `kind` is the statement's first word; for WITH it is the
    first data-modifying statement in it, or SELECT. `table` is the first table that is written, or
    else the first that is read. `writes` are all written tables, and `tables` all tables that are
    read. `condition` has the columns that WHERE compares with a value. `read` has the returned
    rows. `wrote` has the columns that were set to a value, and `computed` the text of each
    expression that a column was set to. `lock` is the mode of the lock that the statement takes,
    and `lock_name` the key of an advisory lock; both can be empty. `subquery` says that a statement
    reads while it writes.
    """
    tokens = fill_in(step.sql, step.params)
    statements = list(find_writes(tokens)) if step.kind == "WITH" else [(step.kind, 0)]
    kind, start = statements[0] if statements else ("SELECT", 0)
    tables = find_read_tables(tokens)
    table = tables[0] if tables else ""
    after_table = 0
    if kind != "SELECT":
        table, after_table = find_written_table(tokens, start)
    writes = [position for word, position in statements if word in WRITES]
    set_clause = find_between(tokens, "set", "where") if kind in ("INSERT", "UPDATE") else ()
    wrote = find_inserted(tokens[after_table:]) if kind == "INSERT" else find_equalities(set_clause)
    lock, lock_name = find_lock(kind, tokens)
    rows = [[None if value is None else str(value) for value in row] for row in step.rows]
    return {
        "kind": kind,
        "table": table,
        "tables": tables,
        "writes": [find_written_table(tokens, position)[0] for position in writes],
        "condition": find_equalities(find_between(tokens, "where", "returning")),
        "wrote": wrote,
        "computed": {c: t for c, t in find_expressions(set_clause).items() if c not in wrote},
        "read": [dict(zip(step.columns, row, strict=False)) for row in rows],
        "subquery": kind != "SELECT" and any(token.is_word("select") for token in tokens),
        "lock": lock,
        "lock_name": lock_name,
    }


def fill_in(sql: str, params: Any) -> Tokens:
    """Return the tokens of SQL with a text or NULL for each parameter; of `link.key` only `key`."""
    filled = []
    tokens = tokenize(sql)
    for token, after in itertools.zip_longest(tokens, tokens[1:]):
        if token.kind == "param":
            value = token.find_value(params)
            null = Token("word", "NULL", "null")
            filled.append(null if value is None else Token("text", token.text, str(value)))
        elif not (token.is_mark(".") or (after is not None and after.is_mark("."))):
            filled.append(token)
    return tuple(filled)


def is_value(token: Token) -> bool:
    return token.is_constant() or token.is_word("null")


def read_value(token: Token) -> str | None:
    return None if token.is_word("null") else token.value


def find_writes(tokens: Tokens) -> Iterator[tuple[str, int]]:
    """Yield the kind and the position of each data-modifying statement in a WITH."""
    for position, (before, token) in enumerate(itertools.pairwise(tokens), start=1):
        kind = token.value.upper()
        # At the start of a CTE, or after the last one.
        if token.kind == "word" and kind in WRITES and before.is_mark("(", ")"):
            yield kind, position


def find_written_table(tokens: Tokens, start: int) -> tuple[str, int]:
    """Return the first table that is written or locked after `start`, and the position after it."""
    for position, token in enumerate(tokens[start:-1], start=start):
        if token.is_word("from", "into", "update", "table"):
            return tokens[position + 1].value, position + 2
    return "", 0


def find_read_tables(tokens: Tokens) -> list[str]:
    """Return the tables that a statement reads from; those of subqueries and CTEs come last."""
    cte_names = set()
    for name, word, opening in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if word.is_word("as") and (opening.is_mark("(") or opening.is_word("materialized")):
            cte_names.add(name.value)
    depth = 0
    tables = list[tuple[int, str]]()  # each after the depth at which it is read
    for token, after in itertools.pairwise(tokens):
        depth += token.is_mark("(") - token.is_mark(")")
        if token.is_word("from", "join") and after.is_name():
            tables.append((depth, after.value))
    tables.sort(key=lambda entry: entry[0])
    return list(dict.fromkeys(name for _, name in tables if name not in cte_names))


def find_lock(kind: str, tokens: Tokens) -> tuple[str, str]:
    """Return the mode of the lock that a statement takes, and an advisory lock's name.

    An UPDATE counts as one that changes no column of a unique key, which would take FOR UPDATE.
    """
    for position, token in enumerate(tokens):
        if token.is_name() and re.match(r"pg_(try_)?advisory(_xact)?_lock", token.value):
            values = [read_value(value) for value in tokens[position:] if is_value(value)]
            return "advisory", (values[0] if values else "") or ""
    if kind == "LOCK":
        mode = " ".join(token.value.upper() for token in find_between(tokens, "in", "mode"))
        return mode or "ACCESS EXCLUSIVE", ""
    locking = [index for index, token in enumerate(tokens) if token.is_word("for")]
    if kind == "SELECT" and locking:
        words = itertools.takewhile(is_lock_word, tokens[locking[0] + 1 :])
        return " ".join(["FOR", *(token.value.upper() for token in words)]), ""
    return {"UPDATE": "FOR NO KEY UPDATE", "DELETE": "FOR UPDATE"}.get(kind, ""), ""


def is_lock_word(token: Token) -> bool:
    return token.is_word("no", "key", "update", "share")


def find_expressions(tokens: Tokens) -> dict[str, str]:
    """Return the columns of a SET clause, each with the text of its expression."""
    columns = {}
    for assignment in split_list(tokens):
        if len(assignment) < 3 or not assignment[1].is_mark("="):  # such as (a, b) = …
            continue
        name, _, *expression = assignment
        texts = [
            part.text if part.kind in ("word", "literal") else part.value for part in expression
        ]
        columns[name.value] = " ".join(texts).removeprefix("( ").removesuffix(" )")
    return columns


def find_between(tokens: Tokens, start: str, end: str) -> Tokens:
    """Return the tokens after `start`, up to `end` or to the last; none without `start`."""
    starts = [index for index, token in enumerate(tokens) if token.is_word(start)]
    rest = tokens[starts[0] + 1 :] if starts else ()
    return tuple(itertools.takewhile(lambda token: not token.is_word(end), rest))


def find_equalities(tokens: Tokens) -> Columns:
    """Return the columns before an equals sign, each with its value: a = 1, but not a = 1 + b."""
    end = Token("mark", "", "")
    quadruples = zip(tokens, tokens[1:], tokens[2:], [*tokens[3:], end], strict=False)
    return {
        name.value: read_value(value)
        for name, sign, value, after in quadruples
        if name.is_name()
        and sign.is_mark("=")
        and is_value(value)
        and not after.is_mark(*OPERATORS)
    }


def find_inserted(tokens: Tokens) -> Columns:
    """Return the values of an INSERT by column; `tokens` begin after the table."""
    columns: list[list[Token]] = []
    for index, token in enumerate(tokens):
        if token.is_mark("("):
            columns = split_list(tokens[index + 1 :])
        if token.is_mark("(") or token.is_word("values", "select", "default"):
            break
    values = find_between(tokens, "values", "")[1:]  # after its parenthesis
    items = split_list(values or find_between(tokens, "select", "from"))
    return {
        column[0].value: read_value(item[0])
        for column, item in zip(columns, items, strict=False)
        if len(item) == 1 and is_value(item[0])
    }


def split_list(tokens: Tokens) -> list[list[Token]]:
    """Return the items of a list with commas; it ends at a closing parenthesis, or at the end."""
    items: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += token.is_mark("(") - token.is_mark(")")
        if depth < 0:
            break
        if token.is_mark(",") and not depth:
            items.append([])
        else:
            items[-1].append(token)
    return items
