"""`manage.py strategies`: the tables of strategies, for a terminal or as Markdown."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from lab.markdown import format_aligned, format_markdown
from lab.races import OPERATIONS
from shorturl.strategies.table import STRATEGIES, Verdict

MARKS = {Verdict.RIGHT: "✅", Verdict.WRONG: "⛔"}  # ⚠️ for all others


class Command(BaseCommand):
    help = "Print the tables of strategies: aligned on a terminal, in Markdown elsewhere."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("operation", nargs="*", help="all, unless some are named")

    def handle(self, *args: Any, operation: list[str], **options: Any) -> None:
        if unknown := [name for name in operation if name not in STRATEGIES]:
            names = ", ".join(STRATEGIES)
            raise CommandError(f"There is no operation {unknown[0]!r}; there are {names}.")
        is_terminal = self.stdout.isatty()
        for name in operation or STRATEGIES:
            titles = [OPERATIONS[name].title, "", "what it shows", "article"]
            rows = []
            for file, strategy in STRATEGIES[name].items():
                verdict = strategy.verdict.value
                if not is_terminal:
                    verdict = f"{MARKS.get(strategy.verdict, '⚠️')} {verdict}"
                    file = f"[`{file}`](shorturl/strategies/{name}/{file}.py)"
                rows.append([file, verdict, strategy.shows, strategy.step])
            format_table = format_aligned if is_terminal else format_markdown
            self.stdout.write(f"{format_table(titles, rows)}\n\n")
