"""Whether a statement asks for the order of the ids of a table: the newest, or those after one."""

import functools
import re

from pginterleave.sql import statements
from pginterleave.sql.reader import remove_constants

_WHERE_WITH_EQUALITY = re.compile(r"\bwhere\b.*(?<![<>!=])=", re.DOTALL | re.IGNORECASE)
_SEQUENCE_VALUE = re.compile(r"\b(?:setval|last_value)\b", re.IGNORECASE)


@functools.lru_cache(maxsize=1024)
def does_ask_for_order(sql: str, table: str, column: str) -> bool:
    """Whether a statement compares, sorts or aggregates the ids of all rows of a table.

    With an equality, such as `WHERE parent = 7`, it asks only for the order in a group. A statement
    that sorts rows and has no LIMIT does not single out a row.
    """
    text = remove_constants(sql)
    if table not in statements.find_read_tables(sql) or _WHERE_WITH_EQUALITY.search(text):
        return False
    name = rf'(?:"?\w+"?\.)?"?{re.escape(column)}"?'
    aggregates = rf"\b(?:max|min)\(\s*{name}\s*\)"
    compares = rf"(?<![\w.\"]){name}\s*[<>]|[<>]=?\s*{name}(?![\w.\"])"
    patterns = [aggregates, compares]
    if "limit" in statements.find_words(sql):
        patterns.append(rf"\border\s+by\s+{name}(?!\w)")
    return any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)


def has_sequence_value(sql: str) -> bool:
    """Whether a statement reads or sets the value of a sequence, which INSERTs only count up."""
    return bool(_SEQUENCE_VALUE.search(remove_constants(sql)))
