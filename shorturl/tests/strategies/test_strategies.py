"""The tables of strategies, and the form of their files."""

import ast
import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import shorturl
from shorturl.models import LinkEvent, ShortUrl, Subscription, Visit
from shorturl.strategies.recording_visits import combined
from shorturl.strategies.resolving import in_memory
from shorturl.strategies.spending import reservation
from shorturl.strategies.table import STRATEGIES, Strategy, Verdict

PACKAGE = Path(shorturl.__path__[0])

every = pytest.mark.parametrize(
    "strategy",
    [one for strategies in STRATEGIES.values() for one in strategies.values()],
    ids=lambda strategy: strategy.function.__module__.removeprefix("shorturl.strategies."),
)


@pytest.mark.parametrize("operation", STRATEGIES)
def test_the_table_lists_every_file_in_the_order_of_the_article(operation: str) -> None:
    files = {path.stem for path in (PACKAGE / "strategies" / operation).glob("*.py")}
    assert set(STRATEGIES[operation]) == files - {"__init__"}
    steps = [s.step for s in STRATEGIES[operation].values() if s.step != "–"]
    assert steps == sorted(
        steps, key=["⛔ 1", "⛔ 2", "✅ 1", "✅ 2", "⛔ 3", "✅ 3", "✅ 4", "✅ 5"].index
    )


def tree(strategy: Strategy) -> ast.Module:
    return ast.parse(Path(strategy.function.__code__.co_filename).read_text())


@every
def test_imports_only_the_model_and_keys_of_the_service(strategy: Strategy) -> None:
    """The file can be copied as it stands."""
    nodes = [node for node in ast.walk(tree(strategy)) if isinstance(node, ast.ImportFrom)]
    modules = {node.module for node in nodes}
    ours = {module for module in modules if module and module.startswith("shorturl")}
    allowed = {"models", "links.keys", "exceptions", "strategies.exhibits.models"}
    allowed = {f"shorturl.{name}" for name in allowed}
    assert ours <= allowed
    others = {str(module).split(".")[0] for module in modules - ours}
    standard = "collections concurrent datetime functools hashlib random threading time typing"
    assert others <= {*standard.split(), "django", "sqids"}


@every
def test_one_function(strategy: Strategy) -> None:
    """Exceptions are in_memory, which has a thread, and those that the service counts hits by."""
    nodes = list(ast.walk(tree(strategy)))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    has_class = any(isinstance(node, ast.ClassDef) for node in nodes)
    several = strategy.name == "combined"
    assert (len(functions) == 1) is not (has_class or several)
    function = next(node for node in functions if node.name == strategy.function.__name__)
    assert not function.decorator_list
    assert not any(isinstance(node, ast.While) for node in nodes)
    assert not has_class or strategy.name == "in_memory"


@every
def test_the_docstring_says_the_same_things_in_the_same_order(strategy: Strategy) -> None:
    headings = re.findall(
        r"^    (What it does|SQL|What goes wrong|Why nothing can go wrong|What it costs|"
        r"When to use it)[:,]",
        strategy.function.__doc__ or "",
        flags=re.MULTILINE,
    )
    right = strategy.verdict is Verdict.RIGHT
    middle = "Why nothing can go wrong" if right else "What goes wrong"
    # savepoint shows its SQL twice, alone and inside a caller's transaction.
    assert list(dict.fromkeys(headings)) == [
        *("What it does", "SQL", middle),
        *("What it costs", "When to use it"),
    ]


def test_nothing_depends_on_one_driver() -> None:
    """psycopg's `sql` module is imported from Django, which has it for both drivers."""
    for path in PACKAGE.rglob("*.py"):
        imported = re.search(r"^\s*(from|import) psycopg", path.read_text(), re.MULTILINE)
        assert "tests" in path.parts or not imported, path


def documented_sql(strategy: Strategy) -> re.Pattern[str]:
    """Return the SQL of a strategy's docstring as a pattern, in which "…" matches anything."""
    (listing,) = re.findall(r"    SQL.*:\n((?:        .+\n)+)", strategy.function.__doc__ or "")[:1]
    lines = [line.strip() for line in listing.splitlines()]
    # SQL after ", or" or "…" is sent only if there is a conflict.
    sent = " ".join(line.split(", or ")[0] for line in lines if not line.startswith("…"))
    return re.compile(re.escape(sent).replace("…", ".*?"))


# A call of each operation without a conflict.
CALLS: dict[str, Callable[[Any], object]] = {
    "create": lambda function: function("https://example.com/", keys=["free"], hits=0),
    "resolve": lambda function: function("hot"),
    "answer": lambda function: function("me", "key", "0", work=lambda: {"status": 201}),
    "reuse": lambda function: function(
        "https://example.com/new",
        owner_id=None,
        create=partial(ShortUrl.objects.create, key="new", target_url="https://example.com/new"),
    ),
    "roll_up": lambda function: function(),
    "record": lambda function: function("hot", Visit(browser="Firefox")),
    "deliver": lambda function: function(1, bool),
    "spend": lambda function: function("somebody", list, limit=2, period=timedelta(days=10_000)),
}


@every
@pytest.mark.django_db(transaction=True)
def test_the_docstring_shows_the_sql_that_is_sent(
    strategy: Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_memory, "Timer", lambda *_: Thread())  # which does nothing
    monkeypatch.setattr(in_memory, "HITS", in_memory.Hits())
    ShortUrl.objects.create(id=10**6, key="hot", target_url="https://example.com/")
    CALLS["spend"](reservation.spend)  # so that there is a counter
    Subscription.objects.create(id=1, url="https://example.com/")
    LinkEvent.objects.create(subscription_id=1, key="hot")
    if CALLS[strategy.function.__name__] is CALLS["roll_up"]:
        CALLS["record"](combined.record)
    with CaptureQueriesContext(connection) as captured:
        CALLS[strategy.function.__name__](strategy.function)
    statements = " ".join(query["sql"] for query in captured)
    plain = re.sub(r'"(\w+)"\."(\w+)"', r"\2", statements).replace('"', "")
    plain = plain.replace("(hits + 1)", "hits + 1").replace("SELECT 1 AS a", "SELECT 1")
    assert documented_sql(strategy).fullmatch(" ".join(plain.split())), plain
