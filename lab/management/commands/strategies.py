"""`manage.py strategies`: the tables of strategies, as Markdown."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from lab.markdown import table
from lab.races import OPERATIONS
from shorturl.strategies.strategy import Verdict
from shorturl.strategies.table import STRATEGIES

MARKS = {Verdict.RIGHT: "✅", Verdict.WRONG: "⛔"}  # ⚠️ for all others


def verdict(of: Verdict) -> str:
    return f"{MARKS.get(of, '⚠️')} {of.value}"


class Command(BaseCommand):
    help = "Print the tables of strategies as Markdown."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("operation", nargs="*", help="all, unless some are named")

    def handle(self, *args: Any, operation: list[str], **options: Any) -> None:
        for name in operation or STRATEGIES:
            folder = f"shorturl/strategies/{name}"
            rows = [
                [f"[`{file}`]({folder}/{file}.py)", verdict(one.verdict), one.shows, one.step]
                for file, one in STRATEGIES[name].items()
            ]
            titles = [OPERATIONS[name].title, "", "what it shows", "article"]
            self.stdout.write(f"{table(titles, rows)}\n\n")
