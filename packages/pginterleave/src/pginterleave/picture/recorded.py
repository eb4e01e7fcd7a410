"""The steps of a schedule as plain data, which can be stored and drawn later."""

import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from pginterleave.formatting import format_place
from pginterleave.picture.wording import WRITES
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


TOKEN = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|%\((?P<parameter>\w+)\)s|%s|\d+(?:\.\d+)?|\w+|\S""")
OPERATORS = frozenset("+-*/|")
ROW_LOCK_WORDS = frozenset(("NO", "KEY", "UPDATE", "SHARE"))


class Value(NamedTuple):
    """A token that is a value; all other tokens are names, keywords and punctuation."""

    text: str | None


Tokens = list[str | Value]
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
    tokens = list(tokenize(step.sql, step.params))
    statements = list(find_writes(tokens)) if step.kind == "WITH" else [(step.kind, 0)]
    kind, start = statements[0] if statements else ("SELECT", 0)
    tables = find_read_tables(tokens)
    table = tables[0] if tables else ""
    after_table = 0
    if kind != "SELECT":
        table, after_table = find_written_table(tokens, start)
    writes = [position for word, position in statements if word in WRITES]
    set_clause = find_between(tokens, "SET", "WHERE") if kind in ("INSERT", "UPDATE") else []
    wrote = find_inserted(tokens[after_table:]) if kind == "INSERT" else find_equalities(set_clause)
    lock, lock_name = find_lock(kind, tokens)
    rows = [[None if value is None else str(value) for value in row] for row in step.rows]
    return {
        "kind": kind,
        "table": table,
        "tables": tables,
        "writes": [find_written_table(tokens, position)[0] for position in writes],
        "condition": find_equalities(find_between(tokens, "WHERE", "RETURNING")),
        "wrote": wrote,
        "computed": {c: t for c, t in find_expressions(set_clause).items() if c not in wrote},
        "read": [dict(zip(step.columns, row, strict=False)) for row in rows],
        "subquery": kind != "SELECT" and "SELECT" in tokens,
        "lock": lock,
        "lock_name": lock_name,
    }


def find_writes(tokens: Tokens) -> Iterator[tuple[str, int]]:
    """Yield the kind and the position of each data-modifying statement in a WITH."""
    for position, (before, token) in enumerate(itertools.pairwise(tokens), start=1):
        if token in WRITES and before in ("(", ")"):  # at the start of a CTE, or after the last one
            yield str(token), position


def find_written_table(tokens: Tokens, start: int) -> tuple[str, int]:
    """Return the first table that is written or locked after `start`, and the position after it."""
    for position, token in enumerate(tokens[start:-1], start=start):
        if token in ("FROM", "INTO", "UPDATE", "TABLE"):
            return str(tokens[position + 1]), position + 2
    return "", 0


def find_read_tables(tokens: Tokens) -> list[str]:
    """Return the tables that a statement reads from; those of subqueries and CTEs come last."""
    cte_names = set()
    for name, word, opening in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if word == "AS" and opening in ("(", "MATERIALIZED"):
            cte_names.add(name)
    depth = 0
    tables = list[tuple[int, str]]()  # each after the depth at which it is read
    for token, following in itertools.pairwise(tokens):
        depth += (token == "(") - (token == ")")  # noqa: S105
        if token in ("FROM", "JOIN") and isinstance(following, str):
            tables.append((depth, following))
    tables.sort(key=lambda entry: entry[0])
    no_tables = {"(", *cte_names}  # a parenthesis begins a subquery
    return list(dict.fromkeys(name for _, name in tables if name not in no_tables))


def find_lock(kind: str, tokens: Tokens) -> tuple[str, str]:
    """Return the mode of the lock that a statement takes, and an advisory lock's name.

    An UPDATE counts as one that changes no column of a unique key, which would take FOR UPDATE.
    """
    words = [token if isinstance(token, str) else "" for token in tokens]
    for position, word in enumerate(words):
        if re.match(r"pg_(try_)?advisory(_xact)?_lock", word):
            values = (token.text for token in tokens[position:] if isinstance(token, Value))
            return "advisory", next(values, None) or ""
    if kind == "LOCK":
        return " ".join(map(str, find_between(tokens, "IN", "MODE"))) or "ACCESS EXCLUSIVE", ""
    if kind == "SELECT" and "FOR" in words:
        mode = itertools.takewhile(ROW_LOCK_WORDS.__contains__, words[words.index("FOR") + 1 :])
        return " ".join(["FOR", *mode]), ""
    return {"UPDATE": "FOR NO KEY UPDATE", "DELETE": "FOR UPDATE"}.get(kind, ""), ""


def find_expressions(tokens: Tokens) -> dict[str, str]:
    """Return the columns of a SET clause, each with the text of its expression."""
    columns = {}
    for assignment in split_list(tokens):
        if len(assignment) < 3 or assignment[1] != "=":  # such as (a, b) = …
            continue
        name, _, *expression = assignment
        texts = [part.text or "NULL" if isinstance(part, Value) else part for part in expression]
        columns[str(name)] = " ".join(texts).removeprefix("( ").removesuffix(" )")
    return columns


def tokenize(sql: str, params: Any) -> Iterator[str | Value]:
    """Yield the tokens of `sql` with its parameters filled in; of `"link"."key"` only `key`."""
    given = iter(() if isinstance(params, dict) else params or ())
    matches = list(TOKEN.finditer(sql))
    for match, next_match in itertools.zip_longest(matches, matches[1:]):
        text = match[0]
        parameter = match["parameter"]
        following = next_match[0] if next_match else ""
        if text == "%s" or parameter:
            value = params[parameter] if parameter else next(given, None)
            yield Value(None if value is None else str(value))
        elif text[0] == "'":
            yield Value(text[1:-1].replace("''", "'"))
        elif text[0].isdigit():
            yield Value(text)
        elif text == "NULL":
            yield Value(None)
        elif "." not in (text, following):
            yield text.strip('"')


def find_between(tokens: Tokens, start: str, end: str) -> Tokens:
    """Return the tokens after `start`, up to `end` or to the last; none without `start`."""
    rest = tokens[tokens.index(start) + 1 :] if start in tokens else []
    return rest[: rest.index(end)] if end in rest else rest


def find_equalities(tokens: Tokens) -> Columns:
    """Return the columns before an equals sign, each with its value: a = 1, but not a = 1 + b."""
    quadruples = zip(tokens, tokens[1:], tokens[2:], [*tokens[3:], ""], strict=False)
    return {
        str(name): value.text
        for name, sign, value, following in quadruples
        if sign == "=" and isinstance(value, Value) and following not in OPERATORS
    }


def find_inserted(tokens: Tokens) -> Columns:
    """Return the values of an INSERT by column; `tokens` begin after the table."""
    if "(" not in tokens:
        return {}
    columns = split_list(tokens[tokens.index("(") + 1 :])
    if "VALUES" in tokens:
        values = split_list(tokens[tokens.index("VALUES") + 2 :])  # after its parenthesis
    else:
        values = split_list(find_between(tokens, "SELECT", "FROM"))
    return {
        str(column[0]): value[0].text
        for column, value in zip(columns, values, strict=False)
        if len(value) == 1 and isinstance(value[0], Value)
    }


def split_list(tokens: Tokens) -> list[Tokens]:
    """Return the items of a list with commas; it ends at a closing parenthesis, or at the end."""
    items: list[Tokens] = [[]]
    depth = 0
    for token in tokens:
        depth += (token == "(") - (token == ")")  # noqa: S105
        if depth < 0:
            break
        if token == "," and not depth:  # noqa: S105
            items.append([])
        else:
            items[-1].append(token)
    return items
