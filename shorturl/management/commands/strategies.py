"""`manage.py strategies`: the two tables of strategies, as Markdown."""

from typing import Any

from django.core.management.base import BaseCommand

from shorturl import creating, resolving
from shorturl.strategies import Strategy, Verdict

MARKS = {Verdict.RIGHT: "✅ right", Verdict.WRONG: "⛔ wrong", Verdict.RIGHT_ALONE: "⚠️ right alone"}


class Command(BaseCommand):
    """Prints what creating.STRATEGIES and resolving.STRATEGIES hold."""

    help = "Print the tables of strategies as Markdown."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        self._print_table("To create a short URL", "creating", creating.STRATEGIES)
        self.stdout.write("")
        self._print_table("To resolve a key and count the hit", "resolving", resolving.STRATEGIES)

    def _print_table(self, title: str, package: str, strategies: dict[str, Strategy[Any]]) -> None:
        self.stdout.write(f"| {title} | | what it shows | article |")
        self.stdout.write("| --- | --- | --- | --- |")
        for name, strategy in strategies.items():
            file = f"[`{name}`](shorturl/{package}/{name}.py)"
            mark = MARKS[strategy.verdict]
            self.stdout.write(f"| {file} | {mark} | {strategy.shows} | {strategy.step} |")
