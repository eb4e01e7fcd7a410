"""Statements and exceptions as a reader sees them: shorter, and never with another value."""

from typing import Any

import pytest

from pginterleave import formatting


@pytest.mark.parametrize(
    ("sql", "params", "shown"),
    [
        ('SELECT "a"."b",\n  "c" FROM "a"', None, "SELECT b, c FROM a"),
        ("SELECT %s", ['He said "hi"  and "a"."b"'], """SELECT 'He said "hi"  and "a"."b"'"""),
        ("""SELECT  'a "b"  c', "d" """, None, """SELECT 'a "b"  c', d"""),
        ("SELECT  'it''s  \"one\"'", None, "SELECT 'it''s  \"one\"'"),
        (r"""SELECT E'\'  "x"'  ,  2""", None, r"""SELECT E'\'  "x"' , 2"""),
        ('DO $a$ "x"  $b$  $a$  "y"', None, 'DO $a$ "x"  $b$  $a$ y'),
        ("SELECT %(a)s, %(b)s", {"a": "x  y", "b": None}, "SELECT 'x  y', NULL"),
        ("SELECT a, b, c, d FROM t WHERE e = %s", ["SELECT a, b, c, d FROM t"],
         "SELECT … FROM t WHERE e = 'SELECT a, b, c, d FROM t'"),
        ("SELECT %s, %s", ["one"], "SELECT %s, %s"),
        ("", None, ""),
    ],
)  # fmt: skip
def test_values_are_not_changed(sql: str, params: Any, shown: str) -> None:
    assert formatting.statement(sql, params) == shown


def test_an_exception_without_a_text() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise KeyError("text")

    assert formatting.exception(Odd()) == "Odd: (its str() raises KeyError)"
    assert formatting.exception(ValueError("two\nlines")) == "ValueError: two"
