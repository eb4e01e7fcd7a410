"""The tables that a statement names, from its text."""

import functools
import re
from typing import NamedTuple

from pginterleave.sql.quoting import remove_constants

ROW_LOCK = re.compile(r"\bfor\s+(no\s+key\s+|key\s+)?(update|share)\b")
_NAME = r'(?:[\w$]+|"(?:[^"]|"")*")'
_NAME_OR_MARK = re.compile(rf"{_NAME}(?:\s*\.\s*{_NAME})*|\S")  # a name with its schema
_IN_PARENTHESES = re.compile(r"\bonly\s*\(([^()]*)\)")
# What stands before a table, and what does so only at the beginning of a statement.
_BEFORE_TABLES = {"update", "into", "from", "join", "using", "table", "delete from"}
_BEFORE_TABLES |= {"lock table", "truncate table", "drop table"}
_FIRST_BEFORE_TABLES = {"lock", "truncate", "copy"}
_BEFORE_COLUMNS = {"into", "copy"}  # INTO a table (column); FROM a function (argument)
_BETWEEN = {"only", "lateral", "if", "exists"}  # FROM ONLY a; DROP TABLE IF EXISTS a
# Words that are no tables, and end a list of tables: after them, a comma is followed by no table.
_AFTER_TABLES = {"where", "group", "having", "order", "limit", "offset", "fetch", "for", "window"}
_AFTER_TABLES |= {"union", "intersect", "except", "returning", "set", "values", "select", "with"}


class NamedTable(NamedTuple):
    """A table, view or CTE in a statement."""

    name: str  # in small letters, without quotes and schema
    keyword: str  # before it or before its list: in `DELETE FROM a USING b, c` "using" for c


@functools.lru_cache(maxsize=1024)
def list_named_tables(sql: str) -> tuple[NamedTable, ...]:
    """Return what SQL names as tables, and some that are none: `epoch FROM x` in a call."""
    text = ROW_LOCK.sub(" for ", _IN_PARENTHESES.sub(r" \1 ", remove_constants(sql).lower()))
    words = ["", *_NAME_OR_MARK.findall(text), ""]
    tables = []
    lists = [""]  # the keyword of the list of tables; a further one in each open parenthesis
    keyword = ""  # of the table that the next word may be
    for previous, word, following in zip(words, words[1:], words[2:], strict=False):
        pair = f"{previous} {word}"
        if word in _BEFORE_TABLES or (word in _FIRST_BEFORE_TABLES and not previous):
            keyword = pair if pair in _BEFORE_TABLES else word
            if word != "join":  # after a JOIN, a comma goes on with the list of FROM
                lists[-1] = keyword
        elif word == ",":
            keyword = lists[-1]
        elif word == "(":
            lists.append("")
        elif word == ")":
            lists = lists[:-1] or [""]
            keyword = ""
        elif word in _AFTER_TABLES:
            lists[-1] = keyword = ""
        elif word not in _BETWEEN:
            is_call = following == "(" and keyword not in _BEFORE_COLUMNS
            is_column = keyword == "using" and previous == "(" and following in (",", ")")
            if keyword and re.match(r'[\w"]', word) and not (is_call or is_column):
                tables.append(NamedTable(_find_name(word), keyword))
            keyword = ""
    return tuple(tables)


def _find_name(qualified: str) -> str:
    """Return the last of the names that dots join, without its quotes."""
    name: str = re.findall(_NAME, qualified)[-1]
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
