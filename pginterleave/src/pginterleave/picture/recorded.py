"""The steps of a schedule as plain data, which can be kept and drawn later."""

import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from pginterleave.formatting import place
from pginterleave.results import Schedule
from pginterleave.steps import Step


def recorded_step(step: Step) -> dict[str, Any]:
    """Return what a picture shows of a step, apart from what others do meanwhile.

    It has `process`, `sql` (for a reader), `until`, `waited_for`, `result`, `error` and `message`
    (both can be empty), `pivot` (whether PostgreSQL ended it as that of a write skew), `rows` (how
    many it returned or changed), `where` (the file and line that sent it), and what
    column_values() returns.
    """
    return {
        "process": step.process,
        "sql": step.statement(),
        "until": step.until,
        "waited_for": step.waited_for,
        "result": step.result(),
        "error": step.error,
        "message": step.message,
        "pivot": "as a pivot" in step.detail,
        "rows": step.rowcount,
        "where": place(step.filename, step.lineno) if step.filename else "",
        **column_values(step),
    }


def recorded_steps(schedule: Schedule) -> list[dict[str, Any]]:
    """Return the steps of a schedule, with the processes that are `in_transaction` after each."""
    recorded, inside = [], dict[int, bool]()
    for step in schedule.timeline:
        returned = [each for each in schedule.timeline if each.until == step.number]
        inside |= {each.process: each.in_transaction for each in returned}
        if step.until > step.number:  # it waits, and holds what its transaction has locked
            inside[step.process] = True
        recorded.append(
            {
                **recorded_step(step),
                "observed": "" if step.observed is None else str(step.observed),
                "in_transaction": [process for process, is_in in inside.items() if is_in],
            }
        )
    return recorded


TOKEN = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|%\((\w+)\)s|%s|\d+(?:\.\d+)?|\w+|\S""")
OPERATORS = frozenset("+-*/|")
WRITES = ("INSERT", "UPDATE", "DELETE", "MERGE")
ROW_LOCK = frozenset(("NO", "KEY", "UPDATE", "SHARE"))


class Value(NamedTuple):
    """A token that is a value; all others are names, keywords and marks."""

    text: str | None


Tokens = list[str | Value]
Columns = dict[str, str | None]


def column_values(step: Step) -> dict[str, Any]:
    """Return the step's `table`, and by column what it `read`, asked for (`condition`) and `wrote`.

    They are taken from the SQL, its parameters and the rows that came back. In the text that is
    shown a value can look like SQL.

    `kind` is what a statement does: one that begins with WITH is an INSERT, or what else it is.
    `table` is the first that is written, or else read; `writes` are all that it writes to, and
    `tables` all that it reads from. Values are texts, or None for NULL. `read` has the rows that
    came back, each by column; `wrote` the columns that were set to a value, and `computed` those
    set to an expression, as its text. `lock` is the mode of the lock that the statement takes, and
    `lock_name` what an advisory lock is called; both can be empty. `subquery` says that a statement
    reads while it writes.
    """
    tokens = list(tokenize(step.sql, step.params))
    effects = list(writing(tokens) if step.kind == "WITH" else [(step.kind, 0)])
    kind, start = effects[0] if effects else ("SELECT", 0)
    tables = read_from(tokens)
    table, after = (tables or [""])[0], 0
    if kind != "SELECT":
        table, after = written(tokens, start)
    wrote: Columns = {}
    set_to: dict[str, str] = {}
    if kind == "INSERT":
        wrote = inserted(tokens[after:])
        set_to = computed(between(tokens, "SET", "WHERE"))
    elif kind == "UPDATE":
        wrote = equal(between(tokens, "SET", "WHERE"))
        set_to = computed(between(tokens, "SET", "WHERE"))
    lock, lock_name = lock_of(kind, tokens)
    return {
        "kind": kind,
        "table": table,
        "tables": tables,
        "writes": [written(tokens, start)[0] for each, start in effects if each in WRITES],
        "condition": equal(between(tokens, "WHERE", "RETURNING")),
        "wrote": wrote,
        "computed": {name: text for name, text in set_to.items() if name not in wrote},
        "read": [
            {name: as_text(value) for name, value in zip(step.columns, row, strict=False)}
            for row in step.rows
        ],
        "subquery": kind != "SELECT" and "SELECT" in tokens,
        "lock": lock,
        "lock_name": lock_name,
    }


def writing(tokens: Tokens) -> Iterator[tuple[str, int]]:
    """Yield what a statement that begins with WITH writes by, and where each of it begins."""
    for position, (before, token) in enumerate(itertools.pairwise(tokens), start=1):
        if token in WRITES and before in ("(", ")"):
            yield str(token), position


def written(tokens: Tokens, start: int) -> tuple[str, int]:
    """Return the table that is written, or locked, from `start` on, and where it ends."""
    for position, token in enumerate(tokens[start:-1], start=start):
        if token in ("FROM", "INTO", "UPDATE", "TABLE"):
            return str(tokens[position + 1]), position + 2
    return "", 0


def read_from(tokens: Tokens) -> list[str]:
    """Return the tables that a statement reads from, those of a subquery last."""
    named = {
        one
        for one, two, three in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if two == "AS" and three in ("(", "MATERIALIZED")
    }
    depth, found = 0, list[tuple[int, str]]()
    for token, following in itertools.pairwise(tokens):
        depth += (token == "(") - (token == ")")  # noqa: S105
        if token in ("FROM", "JOIN") and isinstance(following, str):
            found.append((depth, following))
    found.sort(key=lambda each: each[0])
    return list(dict.fromkeys(name for _, name in found if name != "(" and name not in named))


def lock_of(kind: str, tokens: Tokens) -> tuple[str, str]:
    """Return the mode of the lock that a statement takes, and an advisory lock's name.

    The modes of row locks and table locks are PostgreSQL's own. An UPDATE that changes the columns
    of a unique key takes FOR UPDATE; those of the strategies do not.
    """
    words = [each if isinstance(each, str) else "" for each in tokens]
    for position, word in enumerate(words):
        if re.match(r"pg_(try_)?advisory(_xact)?_lock", word):
            values = (each.text for each in tokens[position:] if isinstance(each, Value))
            return "advisory", next(values, None) or ""
    if kind == "LOCK":
        return " ".join(map(str, between(tokens, "IN", "MODE"))) or "ACCESS EXCLUSIVE", ""
    if kind == "SELECT" and "FOR" in words:
        mode = itertools.takewhile(ROW_LOCK.__contains__, words[words.index("FOR") + 1 :])
        return " ".join(["FOR", *mode]), ""
    return {"UPDATE": "FOR NO KEY UPDATE", "DELETE": "FOR UPDATE"}.get(kind, ""), ""


def computed(tokens: Tokens) -> dict[str, str]:
    """Return the columns of a SET clause with the text of what each is set to."""
    found = {}
    for item in listed(["(", *tokens, ")"]):
        if len(item) > 2 and item[1] == "=":
            words = [
                (each.text or "NULL") if isinstance(each, Value) else each for each in item[2:]
            ]
            found[str(item[0])] = " ".join(words).removeprefix("( ").removesuffix(" )")
    return found


def tokenize(sql: str, params: Any) -> Iterator[str | Value]:
    """Yield the tokens of `sql` with its parameters filled in, names without quotes or table."""
    given = iter(() if isinstance(params, dict) else params or ())
    texts = [(match[0], match[1]) for match in TOKEN.finditer(sql)]
    for (text, name), (following, _) in zip(texts, [*texts[1:], ("", "")], strict=True):
        if text == "%s":
            yield Value(as_text(next(given, None)))
        elif name:
            yield Value(as_text(params[name]))
        elif text[0] == "'":
            yield Value(text[1:-1].replace("''", "'"))
        elif text[0].isdigit():
            yield Value(text)
        elif text == "NULL":
            yield Value(None)
        elif "." not in (text, following):
            yield text.strip('"')


def between(tokens: Tokens, start: str, end: str) -> Tokens:
    if start not in tokens:
        return []
    rest = tokens[tokens.index(start) + 1 :]
    return rest[: rest.index(end)] if end in rest else rest


def equal(tokens: Tokens) -> Columns:
    """Return the columns that stand before an equals sign, with the value after it."""
    return {
        str(name): value.text
        for name, sign, value, following in zip(
            tokens, tokens[1:], tokens[2:], [*tokens[3:], ""], strict=False
        )
        if sign == "=" and isinstance(value, Value) and following not in OPERATORS
    }


def inserted(tokens: Tokens) -> Columns:
    """Return the values of an INSERT by column; `tokens` are those after the table."""
    if "(" not in tokens:
        return {}
    columns = listed(tokens[tokens.index("(") :])
    if "VALUES" in tokens:
        values = listed(tokens[tokens.index("VALUES") + 1 :])
    else:
        values = listed(["(", *between(tokens, "SELECT", "FROM"), ")"])
    return {
        str(column[0]): value[0].text
        for column, value in zip(columns, values, strict=False)
        if len(value) == 1 and isinstance(value[0], Value)
    }


def listed(tokens: Tokens) -> list[Tokens]:
    """Return the items of the list in parentheses that `tokens` begin with."""
    items: list[Tokens] = [[]]
    depth = 0
    for token in tokens:
        depth += (token == "(") - (token == ")")  # noqa: S105
        if depth == 0:
            break
        if token == "," and depth == 1:  # noqa: S105
            items.append([])
        elif (token, depth) != ("(", 1):
            items[-1].append(token)
    return items


def as_text(value: object) -> str | None:
    return None if value is None else str(value)
