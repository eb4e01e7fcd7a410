"""`manage.py race`: list, show, explore and record races."""

import json
from argparse import ArgumentTypeError
from shutil import get_terminal_size
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from lab.exceptions import LabRefusal
from lab.markdown import aligned, table
from lab.races import EVERY_RACE, OPERATIONS
from lab.races.race import Race
from lab.recordings import recorder, tables
from lab.recordings.cells import cells_of, find_race
from lab.recordings.database import test_database
from lab.recordings.recording import read_counts, write
from lab.recordings.tables import CountedCell
from pginterleave import Exploration, InterleaveError
from shorturl.strategies.table import Strategy

# The limits of one exploration. The longest, three processes of permuted_sequence in a transaction,
# runs all its 34,650 schedules.
MAX_SCHEDULES, MAX_SECONDS = 50_000, 900
HOW_TO_READ = "Each digit of a schedule is the process that takes the next step."


def positive(text: str) -> int:
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
        listing.add_argument("--processes", type=positive, help="default: the race's smallest")
        form = listing.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="a list of the cells")
        form.add_argument("--markdown", action="store_true", help="tables for a document")
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
        explore.add_argument("--max-schedules", type=positive, default=MAX_SCHEDULES)
        explore.add_argument("--max-seconds", type=positive, default=MAX_SECONDS)
        record = actions.add_parser("record", help="write lab/recordings/, which the pages show")
        record.add_argument("race", type=find_race, nargs="?", help="default: all races")
        record.add_argument("strategy", nargs="?", help="default: all strategies")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            getattr(self, f"_{action}")(**options)
        except KeyboardInterrupt:
            raise CommandError("Interrupted.", returncode=130) from None
        except (InterleaveError, LabRefusal) as error:
            raise CommandError(str(error), returncode=2) from error
        except DatabaseError as error:
            raise CommandError(f"Database error: {error}".strip(), returncode=2) from error

    def _list(self, *, processes: int | None, **options: Any) -> None:
        every_table = [tables.of_operation(name, processes) for name in OPERATIONS]
        shown = [operation for operation in every_table if operation.columns]
        if options["json"]:
            rows = [row for operation in shown for _, row in operation.rows]
            cells = [cell for row in rows for cell in row if cell]
            self.stdout.write(json.dumps([_counted(cell) for cell in cells], indent=1))
            return
        form, count = (table, _bold) if options["markdown"] else (aligned, _marked)
        for operation in shown:
            lines = [
                [strategy.name, *(count(cell) if cell else "–" for cell in row)]
                for strategy, row in operation.rows
            ]
            self.stdout.write(form([operation.title, *operation.columns], lines) + "\n\n")
            for strategy, _ in operation.rows:
                if strategy.note:
                    self.stdout.write(f"{strategy.name}: {strategy.note}\n\n")

    def _show(
        self, *, race: Race, strategy: str, processes: str, schedule: str | None, **options: Any
    ) -> None:
        chosen, number = race.strategy(strategy), race.number_of_processes(processes)
        with test_database():
            if schedule is not None:
                title = f"schedule {schedule}"
            else:
                result = race.explore(chosen, number, max_schedules=MAX_SCHEDULES)
                if result.counterexample:
                    schedule = result.counterexample.order
                    title = f"{_in_words(result)}; one of them: {schedule}"
                else:
                    schedule = result.orders[0]
                    title = f"{_in_words(result)}; the first: {schedule}"
            shown = race.run(chosen, number, schedule)
        # On a terminal the drawing fits its width, down to 24 columns a lane.
        lane = get_terminal_size().columns // (number + 1) - 3 if self.stdout.isatty() else 40
        drawing = shown.draw(max(24, min(40, lane)))
        self.stdout.write(f"{race.name} × {strategy}: {title}\n{HOW_TO_READ}\n\n{drawing}\n")
        holds = f"Holds: {race.invariant}"
        self.stdout.write(f"Violated: {shown.violation}." if shown.violation else holds)
        self._write_note(chosen)

    def _explore(
        self,
        *,
        race: Race,
        strategy: str | None,
        processes: str,
        max_schedules: int,
        max_seconds: int,
        **options: Any,
    ) -> None:
        number = race.number_of_processes(processes)
        self.stdout.write(HOW_TO_READ)
        self.stdout.write(f"{race.name}, {number} processes. Invariant: {race.invariant}")
        names = [strategy] if strategy else [*race.strategies]
        with test_database():
            for chosen in map(race.strategy, names):
                result = race.explore(
                    chosen, number, max_schedules=max_schedules, max_seconds=max_seconds
                )
                text = _in_words(result)
                if worst := result.counterexample:
                    text += f", for example {worst.order}: {worst.violation}"
                self.stdout.write(f"    {chosen.name}: {text}")
                self._write_note(chosen)

    def _record(self, *, race: Race | None, strategy: str | None, **options: Any) -> None:
        with test_database():
            for recorded in [race] if race else EVERY_RACE.values():
                self._record_race(recorded, recorded.strategy(strategy) if strategy else None)

    def _record_race(self, race: Race, strategy: Strategy | None) -> None:
        """Record the cells of a strategy, or of all; what was too much to count is left so then."""
        counts = read_counts(race)
        recordings = {}
        for cell in cells_of(race):
            if strategy in (None, cell.strategy):
                before = counts.get(cell.key)
                is_counted = bool(strategy or not before or not before.truncated)
                recordings[cell.key] = made = recorder.record(cell, is_counted=is_counted)
                self.stdout.write(f"{cell}: {made.count}")
        write(race, recordings)

    def _write_note(self, strategy: Strategy) -> None:
        if strategy.note:
            self.stdout.write(f"    Note: {strategy.note}")


def _counted(cell: CountedCell) -> dict[str, Any]:
    """Return a cell with its count, which is null if it is unknown."""
    counts = {"violating": None, "schedules": None, "refused": None}
    if cell.count and not cell.count.truncated:
        counts = {name: getattr(cell.count, name) for name in counts}
    return {"race": cell.cell.race.name, "strategy": cell.cell.strategy.name, **counts}


def _bold(cell: CountedCell) -> str:
    is_wrong = cell.count and cell.count.violating and not cell.count.truncated
    return f"**{cell}**" if is_wrong else str(cell)


def _marked(cell: CountedCell) -> str:
    return cell.count.marked() if cell.count else str(cell)


def _in_words(result: Exploration) -> str:
    if result.truncated:
        return str(result)
    return f"{result.violating:,} of {result.schedules:,} schedules violate the invariant"
