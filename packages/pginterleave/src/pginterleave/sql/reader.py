"""Reads SQL into tokens: words, quoted names, constants, parameters and marks.

Everything that is known of a statement is known from these tokens.
"""

import functools
import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

_WORD = r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*"
_TOKEN = re.compile(
    rf"""(?P<space>[ \t\n\r\f\v]+|--[^\n\r]*|/\*)
    |(?P<literal>[eE]'(?:[^'\\]|\\.|'')*'|(?:[uU]&|[bBxXnN])'(?:[^']|'')*'
        |(?P<dollars>\$(?:{_WORD.replace("$", "")})?\$).*?(?P=dollars))
    |(?P<text>'(?:[^']|'')*')
    |(?P<name>(?:[uU]&)?"(?:[^"]|"")*")
    |(?P<param>%(?:\((?P<param_name>[^)]*)\))?[sbt](?![A-Za-z0-9_]))
    |(?P<word>{_WORD})
    |(?P<number>[0-9][\w.]*)
    |(?P<mark>.)""",
    re.DOTALL | re.VERBOSE,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")
MAX_NAME_BYTES = 63  # PostgreSQL cuts longer names


class Token(NamedTuple):
    """A piece of a statement."""

    # A "literal" is a constant with escapes or dollars, and a "mark" one other character.
    kind: Literal["space", "literal", "text", "name", "param", "word", "number", "mark"]
    text: str  # as in the statement
    value: str  # of a word or a name as the catalogue has it, of a text without its quotes
    param: int | str = ""  # the number or the name of a parameter

    def is_name(self) -> bool:
        """Whether it may be the name of a table, a column or a function."""
        return self.kind in ("word", "name")

    def is_constant(self) -> bool:
        return self.kind in ("text", "number", "param")

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these keywords, in small letters."""
        return self.kind == "word" and self.value in words

    def is_mark(self, *marks: str) -> bool:
        return self.kind == "mark" and self.value in marks

    def find_value(self, params: Any) -> Any:
        """Return the value of a constant; None if its parameter is missing."""
        if self.kind != "param":
            return self.value
        try:
            return params[self.param]
        except (TypeError, LookupError):
            return None


Tokens = tuple[Token, ...]


@functools.lru_cache(maxsize=4096)
def tokenize(sql: str) -> Tokens:
    """Return the tokens of SQL, without white space and comments."""
    return tuple(token for token in read(sql) if token.kind != "space")


@functools.lru_cache(maxsize=4096)
def read(sql: str) -> Tokens:
    """Return all tokens of SQL: comments are white space."""
    return tuple(_read(sql))


def _read(sql: str) -> Iterator[Token]:
    position = params = 0
    while match := _TOKEN.match(sql, position):
        kind: Any = match.lastgroup
        text = match[0]
        position = match.end()
        param: int | str = ""
        if text == "/*":
            position = _find_end_of_comment(sql, position)
        elif kind == "param":
            param = params if match["param_name"] is None else match["param_name"]
            params += 1
        yield Token(kind, text, _find_value(kind, text), param)


def _find_end_of_comment(sql: str, position: int) -> int:
    """Return the end of a /* comment */, which may hold other comments, or the end of the SQL."""
    depth = 1
    for mark in _COMMENT_MARK.finditer(sql, position):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    return len(sql)


def _find_value(kind: str, text: str) -> str:
    if kind == "text":
        return text[1:-1].replace("''", "'")
    if kind == "name" and text.startswith('"'):
        return _cut_name(text[1:-1].replace('""', '"').encode(errors="replace"))
    # PostgreSQL changes the capitals of ASCII alone, and so does a method of bytes.
    return _cut_name(text.encode(errors="replace").lower()) if kind == "word" else text


def _cut_name(name: bytes) -> str:
    return name[:MAX_NAME_BYTES].decode(errors="ignore")


def remove_comments(sql: str) -> str:
    """Return SQL with a space for each comment and all white space."""
    return "".join(" " if token.kind == "space" else token.text for token in read(sql))


@functools.lru_cache(maxsize=1024)
def remove_constants(sql: str) -> str:
    """Return SQL with a space for each string and comment. Quoted names stay."""
    return _remove(sql, "space", "text", "literal")


@functools.lru_cache(maxsize=1024)
def remove_quoted(sql: str) -> str:
    """Return SQL with a space for each string, comment and quoted name."""
    return _remove(sql, "space", "text", "literal", "name")


def _remove(sql: str, *kinds: str) -> str:
    return "".join(" " if token.kind in kinds else token.text for token in read(sql))
