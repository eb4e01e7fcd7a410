"""SQL without its comments, constants or quoted names."""

import functools
import re

_STRINGS = r"""(?<!\w)[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'"""
_DOLLARS = r"(?<![\w$])\$((?:[^\W\d]\w*)?)\$.*?\$\1\$"
_QUOTED = re.compile(rf"""{_STRINGS}|{_DOLLARS}|--[^\n\r]*|/\*|"[^"]*\"""", re.DOTALL)
_COMMENT_MARK = re.compile(r"/\*|\*/")


def remove_comments(sql: str) -> str:
    """Return SQL with a space for each /* comment */, which may hold other comments."""
    kept = ""
    position = 0
    while opening := next((m for m in _QUOTED.finditer(sql, position) if m[0] == "/*"), None):
        kept += sql[position : opening.start()] + " "
        position = len(sql)  # if the comment is never closed
        depth = 1
        for mark in _COMMENT_MARK.finditer(sql, opening.end()):
            depth += 1 if mark[0] == "/*" else -1
            if not depth:
                position = mark.end()
                break
    return kept + sql[position:]


@functools.lru_cache(maxsize=1024)
def remove_constants(sql: str) -> str:
    """Return SQL with a space for each string and comment. Quoted names stay."""
    return _QUOTED.sub(
        lambda match: match[0] if match[0].startswith('"') else " ", remove_comments(sql)
    )


@functools.lru_cache(maxsize=1024)
def remove_quoted(sql: str) -> str:
    """Return SQL with a space for each string, comment and quoted name."""
    return _QUOTED.sub(" ", remove_comments(sql))
