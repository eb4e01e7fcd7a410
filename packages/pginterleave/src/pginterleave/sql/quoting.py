"""SQL without its comments, constants or quoted names."""

import functools
import re

_STRINGS = r"""(?<!\w)[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'"""
_DOLLARS = r"(?<![\w$])\$((?:[^\W\d]\w*)?)\$.*?\$\1\$"
_QUOTED = re.compile(rf"""{_STRINGS}|{_DOLLARS}|--[^\n\r]*|/\*|"[^"]*\"""", re.DOTALL)
_COMMENT_MARK = re.compile(r"/\*|\*/")


def without_comments(sql: str) -> str:
    """Return SQL with a space for each closed comment, which may hold other comments."""
    kept = ""
    position = 0
    while opened := next((m for m in _QUOTED.finditer(sql, position) if m[0] == "/*"), None):
        kept += sql[position : opened.start()] + " "
        position = len(sql)
        depth = 1
        for mark in _COMMENT_MARK.finditer(sql, opened.end()):
            depth += 1 if mark[0] == "/*" else -1
            if not depth:
                position = mark.end()
                break
    return kept + sql[position:]


@functools.lru_cache(maxsize=1024)
def without_constants(sql: str) -> str:
    """Return SQL without strings and comments, and with quoted names."""
    return _QUOTED.sub(
        lambda match: match[0] if match[0].startswith('"') else " ", without_comments(sql)
    )


@functools.lru_cache(maxsize=1024)
def without_quoted(sql: str) -> str:
    return _QUOTED.sub(" ", without_comments(sql))
