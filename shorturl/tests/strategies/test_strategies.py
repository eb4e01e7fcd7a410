"""The list of strategies, and what their files promise."""

import ast
import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import shorturl
from shorturl.models import LinkEvent, ShortUrl, Subscription, Visit
from shorturl.strategies.spending import reservation
from shorturl.strategies.table import STRATEGIES, Strategy
from shorturl.tests.callers import TARGET, for_strategies

PACKAGE = Path(shorturl.__path__[0])
ALL = [strategy for strategies in STRATEGIES.values() for strategy in strategies.values()]
ALLOWED = {"models", "links.keys", "exceptions", "strategies.exhibits.models"}
SQL = re.compile(r"    SQL.*:\n((?:        .+\n)+)")  # the lines below "SQL:" in a docstring


def test_every_file_is_listed() -> None:
    listed = {Path(strategy.function.__code__.co_filename) for strategy in ALL}
    files = set(PACKAGE.glob("strategies/*/[!_]*.py"))
    assert listed == files - set(PACKAGE.glob("strategies/exhibits/*.py"))


def test_the_strategies_are_in_the_order_of_haki_benitas_article() -> None:
    """Steps of the article have numbers, ⛔ if wrong and ✅ if right. Two files show ✅ 2."""
    steps = [strategy.step for strategy in ALL if strategy.step != "–"]  # "–": it is no step
    assert steps == ["⛔ 1", "⛔ 2", "✅ 1", "✅ 2", "✅ 2", "⛔ 3", "✅ 3", "✅ 4", "✅ 5"]


@for_strategies(ALL)
def test_a_file_can_be_copied_as_it_stands(strategy: Strategy) -> None:
    """It imports of the service only the model, the keys and the exceptions."""
    tree = ast.parse(Path(strategy.function.__code__.co_filename).read_text())
    modules = {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {name.removeprefix("shorturl.") for name in modules if name.startswith("shorturl.")}
    assert ours <= ALLOWED


# Calls without a conflict, by the name of the strategies' function; `send` and `create` do nothing.
CALLS: dict[str, Callable[[Any], object]] = {
    "create": lambda function: function(TARGET, keys=["free"], title=""),
    "resolve": lambda function: function("hot"),
    "answer": lambda function: function("caller", "key", "0", work=lambda: {"status": 201}),
    "reuse": lambda function: function(
        f"{TARGET}new",
        owner_id=None,
        create=partial(ShortUrl.objects.create, key="new", target_url=f"{TARGET}new"),
    ),
    "record": lambda function: function("hot", Visit(browser="Firefox")),
    "deliver": lambda function: function(1, send=lambda event: None),
    "spend": lambda function: function(
        "somebody", create=lambda: None, limit=2, period=timedelta(days=10_000)
    ),
}


def sql_of_docstring(strategy: Strategy) -> str:
    """Return the SQL that the docstring shows for a call without a conflict."""
    (block,) = SQL.findall(strategy.function.__doc__ or "")
    lines = [line.strip() for line in block.splitlines()]
    # A line that begins with "…" is sent later, and what is behind ", or" in a conflict.
    return " ".join(line.split(", or ")[0] for line in lines if not line.startswith("…"))


def as_docstrings_write(sql: str) -> str:
    """Return SQL without quotes, the tables of columns, and what else Django adds."""
    plain = re.sub(r'"(\w+)"\."(\w+)"', r"\2", sql).replace('"', "")
    plain = plain.replace("(hits + 1)", "hits + 1").replace("SELECT 1 AS a", "SELECT 1")
    return " ".join(plain.split())


@for_strategies(strategy for strategy in ALL if SQL.search(strategy.function.__doc__ or ""))
@pytest.mark.django_db(transaction=True)
def test_the_docstring_shows_the_sql_that_is_sent(strategy: Strategy) -> None:
    """In a docstring "…" matches anything."""
    ShortUrl.objects.create(key="hot", target_url=TARGET)
    CALLS["spend"](reservation.spend)  # so that the call below finds a counter
    Subscription.objects.create(id=1, url=TARGET)
    LinkEvent.objects.create(subscription_id=1, key="hot")
    with CaptureQueriesContext(connection) as captured:
        CALLS[strategy.function.__name__](strategy.function)
    sent = as_docstrings_write(" ".join(query["sql"] for query in captured))
    pattern = re.escape(sql_of_docstring(strategy)).replace("…", ".*?")
    assert re.fullmatch(pattern, sent), sent
