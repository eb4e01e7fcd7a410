"""What a statement is, from its text alone."""

import functools
import re

_COMMENTS = r"(?:/\*.*?\*/|--[^\n]*\n|[\s(;])*"
_ONLY_BEGIN = re.compile(r"\s*(BEGIN|START\s+TRANSACTION)\b[^;]*;?\s*", re.IGNORECASE)
_STATEMENT = re.compile(_COMMENTS + r"(rollback\s+to|\w+)", re.IGNORECASE | re.DOTALL)
_SEVERAL = re.compile(r";\s*\S")
_WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE|MERGE)\b", re.IGNORECASE)
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$""", re.DOTALL)
_SET_ISOLATION = re.compile(r"SET\s+TRANSACTION\s+ISOLATION\s+LEVEL[\s\w]+;?\s*", re.IGNORECASE)
_MORE_THAN_READS = re.compile(r"[(]|\bFOR\b|\bINTO\b", re.IGNORECASE)


@functools.lru_cache(maxsize=1024)
def kind(sql: str) -> str:
    """Return its first word, in capitals, or ROLLBACK TO."""
    match = _STATEMENT.match(sql)
    return " ".join(match[1].upper().split()) if match else ""


def only_begins(sql: str) -> bool:
    """Whether it begins a transaction and does nothing else."""
    return bool(_ONLY_BEGIN.fullmatch(sql))


def sets_isolation_level(sql: str) -> bool:
    """Whether it is SET TRANSACTION ISOLATION LEVEL alone."""
    return bool(_SET_ISOLATION.fullmatch(sql))


def may_be_several(sql: str) -> bool:
    """Whether something stands behind a semicolon, be it in quotes."""
    return bool(_SEVERAL.search(sql))


def only_reads(sql: str) -> bool:
    """Whether it is a plain SELECT: it locks nothing, and calls nothing that could write."""
    return kind(sql) == "SELECT" and not _MORE_THAN_READS.search(sql)


def writes(sql: str) -> bool:
    """Whether it is one statement that changes rows."""
    bare = _QUOTED.sub(" ", sql)
    first = kind(sql)
    changes = _WRITES.fullmatch(first) or (first == "WITH" and _WRITES.search(bare))
    return bool(changes) and not _SEVERAL.search(bare)


def savepoint_name(sql: str) -> str:
    """Return the name in SAVEPOINT name, RELEASE SAVEPOINT name, ROLLBACK TO SAVEPOINT name."""
    return sql.rstrip("; \n").split()[-1].strip('"').lower()
