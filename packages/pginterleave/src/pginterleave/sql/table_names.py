"""The tables that a statement names, from its tokens."""

import functools
from typing import NamedTuple

from pginterleave.sql.reader import Token, tokenize

# What stands before a table, besides UPDATE, and what does so only at the beginning of a statement.
_BEFORE_TABLES = ("into", "from", "join", "using", "table")  # all of them reserved
_FIRST_BEFORE_TABLES = ("lock", "truncate", "copy")
_PAIRS = ("delete from", "lock table", "truncate table", "drop table")
_BEFORE_COLUMNS = ("into", "copy")  # INTO a table (column); FROM a function (argument)
# UPDATE names no table in: FOR UPDATE, FOR NO KEY UPDATE, DO UPDATE, WHEN MATCHED THEN UPDATE.
_BEFORE_CLAUSE = ("for", "key", "do", "then")
_BETWEEN = ("only", "lateral")  # FROM ONLY a
# Reserved words: they are no tables, and after them, a comma is followed by no table.
_AFTER_TABLES = ("where", "group", "having", "order", "limit", "offset", "fetch", "for", "window",
                 "union", "intersect", "except", "returning", "select", "with")  # fmt: skip
# Words that end the list of one keyword, and may be names elsewhere.
_AFTER_KEYWORD = {"update": "set", "into": "values"}
_END = Token("mark", "", "")


class NamedTable(NamedTuple):
    """A table, view or CTE in a statement."""

    name: str  # as the catalogue has it, without its schema
    keyword: str  # before it or before its list: in `DELETE FROM a USING b, c` "using" for c


@functools.lru_cache(maxsize=1024)
def list_named_tables(sql: str) -> tuple[NamedTable, ...]:
    """Return what SQL names as tables, and some that are none: `epoch FROM x` in a call."""
    tokens = [*tokenize(sql), _END, _END]
    tables = []
    lists = [""]  # the keyword of the list of tables; a further one in each open parenthesis
    keyword = ""  # of the table that the next token may be
    before = _END
    index = 0
    while index < len(tokens) - 2:
        token, after = tokens[index : index + 2]
        index += 1
        pair = f"{before.value} {token.value}" if before.kind == "word" else ""
        may_be_table = keyword != "" and token.is_name() and not token.is_word(*_BEFORE_TABLES)
        if token.is_word("if") and after.is_word("exists"):  # DROP TABLE IF EXISTS a
            index += 1
        elif token.is_word(*_BETWEEN):
            pass
        elif token.is_word(*_AFTER_TABLES) or (
            token.is_word("values")
            and (before.is_mark("(") or after.is_mark("("))
            and keyword not in _BEFORE_COLUMNS
        ):
            lists[-1] = keyword = ""
        elif may_be_table:
            may_be_column = keyword == "using" and before.is_mark("(")
            while after.is_mark(".") and tokens[index + 1].is_name():  # a name with its schema
                token, after = tokens[index + 1 : index + 3]
                index += 2
            is_call = after.is_mark("(") and keyword not in _BEFORE_COLUMNS
            if not (is_call or (may_be_column and after.is_mark(",", ")"))):
                tables.append(NamedTable(token.value, keyword))
            keyword = ""
        elif before.is_mark("."):
            pass  # a column
        elif token.is_word("update") and before.is_word(*_BEFORE_CLAUSE):
            lists[-1] = ""
        elif token.is_word("update", *_BEFORE_TABLES) or (
            before is _END and token.is_word(*_FIRST_BEFORE_TABLES)
        ):
            keyword = pair if pair in _PAIRS else token.value
            if keyword != "join":  # after a JOIN, a comma goes on with the list of FROM
                lists[-1] = keyword
        elif token.is_mark(","):
            keyword = lists[-1]
        elif token.is_mark("("):
            lists.append("")
            keyword = "" if keyword == "copy" else keyword  # COPY (SELECT …)
        elif token.is_mark(")"):
            lists = lists[:-1] or [""]
            keyword = ""
        elif token.is_word(_AFTER_KEYWORD.get(lists[-1], "")):
            lists[-1] = ""
        elif not token.is_name():
            keyword = ""
        before = token
    return tuple(tables)
