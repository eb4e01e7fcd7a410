"""The rows of the service's races: functions of the product, as they stand."""

from collections.abc import Callable
from typing import Any

from shorturl.strategies.table import Strategy, Verdict


def row(function: Callable[..., Any], shows: str, *, name: str = "") -> Strategy:
    """Return a function of the service as a row; all of them are right."""
    return Strategy(name or function.__name__, function, Verdict.RIGHT, "–", shows)
