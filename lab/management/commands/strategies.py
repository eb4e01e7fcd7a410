"""`manage.py strategies`: the tables of strategies, for a terminal or as Markdown."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from lab.markdown import aligned, table
from lab.races import OPERATIONS
from shorturl.strategies.table import STRATEGIES, Verdict

MARKS = {Verdict.RIGHT: "✅", Verdict.WRONG: "⛔"}  # ⚠️ for all others


def verdict(of: Verdict) -> str:
    return f"{MARKS.get(of, '⚠️')} {of.value}"


class Command(BaseCommand):
    help = "Print the tables of strategies; as Markdown, if not to a terminal."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("operation", nargs="*", help="all, unless some are named")

    def handle(self, *args: Any, operation: list[str], **options: Any) -> None:
        if unknown := [name for name in operation if name not in STRATEGIES]:
            names = ", ".join(STRATEGIES)
            raise CommandError(f"There is no operation {unknown[0]!r}; there are {names}.")
        for name in operation or STRATEGIES:
            folder, plain = f"shorturl/strategies/{name}", self.stdout.isatty()
            rows = [
                [
                    file if plain else f"[`{file}`]({folder}/{file}.py)",
                    one.verdict.value if plain else verdict(one.verdict),
                    one.shows,
                    one.step,
                ]
                for file, one in STRATEGIES[name].items()
            ]
            titles = [OPERATIONS[name].title, "", "what it shows", "article"]
            self.stdout.write(f"{(aligned if plain else table)(titles, rows)}\n\n")
