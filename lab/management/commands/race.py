"""`manage.py race`: list, show, explore and record races."""

import json
from argparse import ArgumentTypeError
from shutil import get_terminal_size
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from lab.exceptions import NotFound
from lab.markdown import format_aligned, format_markdown
from lab.races import EVERY_RACE, OPERATIONS
from lab.races.race import Race
from lab.recordings import recorder, tables
from lab.recordings.cells import cells_of, find_race
from lab.recordings.database import temporary_database
from lab.recordings.recording import read_counts, write_recordings
from lab.recordings.tables import CountedCell
from pginterleave import Exploration, InterleaveError
from shorturl.strategies.table import Strategy

# The limits of one exploration. The longest, three processes of permuted_sequence in a transaction,
# runs all its 34,650 schedules.
MAX_SCHEDULES = 50_000
MAX_SECONDS = 900
MIN_COLUMN_WIDTH, MAX_COLUMN_WIDTH = 24, 40  # characters, of a drawing
LEGEND = (
    "A cell has the violating schedules out of all. ✗ is silently wrong, ⊘ fails loudly (a process "
    "gets an error), ✓ holds, – takes no part, and … has too many schedules to count them all."
)
NO_CELL = "–"  # a strategy without a part in the race
HOW_TO_READ = "Each digit of a schedule is the process that takes the next step."


def parse_positive(text: str) -> int:
    """Return a whole number from 1 up; raise ArgumentTypeError."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)


class Command(BaseCommand):
    """Explores in a test database, which Django makes and drops."""

    requires_system_checks = ()  # they import every page
    help = "Show, explore and record races: the orders of the processes' SQL statements."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser(
            "list", help="the violating schedules of each race and strategy, out of all"
        )
        listing.add_argument(
            "--processes", type=parse_positive, help="default: the race's smallest"
        )
        formats = listing.add_mutually_exclusive_group()
        formats.add_argument("--json", action="store_true", help="a list of the cells")
        formats.add_argument("--markdown", action="store_true", help="tables for a document")
        show = actions.add_parser("show", help="draw one schedule, step by step")
        show.add_argument("race", type=find_race)
        show.add_argument("strategy")
        show.add_argument(
            "--schedule", help="such as 1212; default: the counterexample, or else the first"
        )
        explore = actions.add_parser("explore", help="run every schedule, and count violations")
        explore.add_argument("race", type=find_race)
        explore.add_argument("strategy", nargs="?", help="default: all strategies")
        for action in (show, explore):
            action.add_argument("--processes", default="", help="default: the race's smallest")
        explore.add_argument("--max-schedules", type=parse_positive, default=MAX_SCHEDULES)
        record = actions.add_parser("record", help="write lab/recordings/, which the pages show")
        record.add_argument("race", type=find_race, nargs="?", help="default: all races")
        record.add_argument("strategy", nargs="?", help="default: all strategies")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            getattr(self, f"_{action}")(**options)
        except KeyboardInterrupt:
            raise CommandError("Interrupted.", returncode=130) from None
        except (InterleaveError, NotFound) as error:
            raise CommandError(str(error), returncode=2) from error
        except DatabaseError as error:
            raise CommandError(f"Database error: {error}".strip(), returncode=2) from error

    def _list(self, *, processes: int | None, **options: Any) -> None:
        """Write the table of each operation that has races with this number of processes."""
        numbers = sorted({number for race in EVERY_RACE.values() for number in race.process_counts})
        if processes and processes not in numbers:
            known = " or ".join(map(str, numbers))
            raise NotFound(f"A race takes {known} processes, not {processes}.")
        operations = [tables.make_operation_table(name, processes) for name in OPERATIONS]
        if options["json"]:
            counts = []
            for operation in operations:
                for _, cells in operation.rows:
                    counts += [_convert_to_json(cell) for cell in cells if cell]
            self.stdout.write(json.dumps(counts, indent=1))
            return
        format_table = format_markdown if options["markdown"] else format_aligned
        format_cell = _format_bold if options["markdown"] else _format_with_mark
        if not options["markdown"]:
            self.stdout.write(f"{LEGEND}\n\n")
        for title, columns, rows in operations:
            lines = [[strategy.name, *map(format_cell, cells)] for strategy, cells in rows]
            if lines:
                self.stdout.write(f"{format_table([title, *columns], lines)}\n\n")
            for strategy, _ in rows:
                if strategy.note:
                    self.stdout.write(f"{strategy.name}: {strategy.note}\n\n")

    def _show(
        self, *, race: Race, strategy: str, processes: str, schedule: str | None, **options: Any
    ) -> None:
        """Write one schedule step by step, and whether it violates the invariant."""
        chosen = race.find_strategy(strategy)
        number = race.parse_processes(processes)
        with temporary_database():
            if schedule is not None:
                title = f"schedule {schedule}"
            else:
                result = race.explore(chosen, number, max_schedules=MAX_SCHEDULES)
                example = result.counterexample
                schedule = example.order if example else result.orders[0]
                which = "one of them" if example else "the first"
                title = f"{_describe_result(result)}; {which}: {schedule}"
            run = race.run(chosen, number, schedule)
        width = MAX_COLUMN_WIDTH
        if self.stdout.isatty():  # columns for the processes and the rows, 3 characters between
            width = min(width, get_terminal_size().columns // (number + 1) - 3)
        drawing = run.draw(max(MIN_COLUMN_WIDTH, width))
        self.stdout.write(f"{race.name} × {strategy}: {title}\n{HOW_TO_READ}\n\n{drawing}\n")
        holds = f"Holds: {race.invariant}"
        self.stdout.write(f"Violated: {run.violation}." if run.violation else holds)
        self._write_note(chosen)

    def _explore(
        self, *, race: Race, strategy: str | None, processes: str, max_schedules: int, **_: Any
    ) -> None:
        """Write how many schedules of a strategy, or of all, violate the invariant."""
        number = race.parse_processes(processes)
        self.stdout.write(HOW_TO_READ)
        self.stdout.write(f"{race.name}, {number} processes. Invariant: {race.invariant}")
        names = [strategy] if strategy else [*race.strategies]
        with temporary_database():
            for chosen in map(race.find_strategy, names):
                result = race.explore(
                    chosen, number, max_schedules=max_schedules, max_seconds=MAX_SECONDS
                )
                text = _describe_result(result)
                if result.counterexample:
                    example = result.counterexample
                    text += f", for example {example.order}: {example.violation}"
                self.stdout.write(f"    {chosen.name}: {text}")
                self._write_note(chosen)

    def _record(self, *, race: Race | None, strategy: str | None, **options: Any) -> None:
        """Record a strategy of a race, all of the race, or all races."""
        chosen = race.find_strategy(strategy) if race and strategy else None
        with temporary_database():
            for name in [race.name] if race else EVERY_RACE:
                self._record_race(EVERY_RACE[name], chosen)

    def _record_race(self, race: Race, strategy: Strategy | None) -> None:
        """Record the cells of a race with one strategy, or with all strategies.

        The pages show some schedules of a cell, and to count all of them takes longer. With all
        strategies, the cells that had too many to count are not counted again.
        """
        counts = read_counts(race)
        recordings = {}
        for cell in cells_of(race):
            if strategy in (None, cell.strategy):
                had_too_many = cell.key in counts and counts[cell.key].truncated
                is_counted = strategy is not None or not had_too_many
                recordings[cell.key] = recorder.record_cell(cell, is_counted=is_counted)
                self.stdout.write(f"{cell}: {recordings[cell.key].count}")
        write_recordings(race, recordings)

    def _write_note(self, strategy: Strategy) -> None:
        if strategy.note:
            self.stdout.write(f"    Note: {strategy.note}")


def _convert_to_json(cell: CountedCell) -> dict[str, Any]:
    """Return the names and the counts of a cell; unknown counts are null."""
    counts = {"violating": None, "schedules": None, "refused": None}
    if cell.count and not cell.count.truncated:
        counts = {name: getattr(cell.count, name) for name in counts}
    return {"race": cell.cell.race.name, "strategy": cell.cell.strategy.name, **counts}


def _format_bold(cell: CountedCell | None) -> str:
    """Return the count of a cell in Markdown, in bold type if schedules violate the invariant."""
    if cell is None:
        return NO_CELL
    is_wrong = cell.count and cell.count.violating and not cell.count.truncated
    return f"**{cell}**" if is_wrong else str(cell)


def _format_with_mark(cell: CountedCell | None) -> str:
    """Return the count of a cell with its mark, ✓ or ✗ or ⊘; without a count it is "…"."""
    if cell is None:
        return NO_CELL
    return cell.count.format_with_mark() if cell.count else str(cell)


def _describe_result(result: Exploration) -> str:
    """Return how many schedules violate the invariant, or that a limit ended the exploration."""
    if result.truncated:
        return str(result)
    return f"{result.violating:,} of {result.schedules:,} schedules violate the invariant"
