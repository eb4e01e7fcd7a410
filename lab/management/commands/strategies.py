"""`manage.py strategies`: the tables of strategies, as Markdown."""

from typing import Any

from django.core.management.base import BaseCommand

from lab.markdown import table
from lab.races import OPERATIONS
from shorturl.strategies.strategy import Verdict
from shorturl.strategies.table import STRATEGIES

MARKS = {
    Verdict.RIGHT: "✅ right",
    Verdict.WRONG: "⛔ wrong",
    Verdict.RIGHT_WITHOUT_CONDITION: "⚠️ right without a condition",
    Verdict.RIGHT_ALONE: "⚠️ right alone",
}


class Command(BaseCommand):
    help = "Print the tables of strategies as Markdown."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        for operation, strategies in STRATEGIES.items():
            folder = f"shorturl/strategies/{operation}"
            rows = [
                [f"[`{one.name}`]({folder}/{one.name}.py)", MARKS[one.verdict], one.shows, one.step]
                for one in strategies.values()
            ]
            titles = [OPERATIONS[operation].title, "", "what it shows", "article"]
            self.stdout.write(f"{table(titles, rows)}\n\n")
