"""`manage.py race`: list, explore and show races."""

import json
import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from contextlib import AbstractContextManager
from shutil import get_terminal_size
from typing import Any, NoReturn

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from lab.exceptions import LabRefusal, NotFound
from lab.exploring.jobs import counted, race_named
from lab.races import RACES, as_if_serial, counts, matrix
from lab.races.museum import MUSEUM
from lab.races.race_definition import MAX_SCHEDULES, MAX_SECONDS, Race
from lab.races.write_skew import WRITE_SKEW
from lab.scratch_database import scratch_database
from pginterleave import Exploration, InterleaveError, Schedule
from shorturl.strategies.table import Strategy

ARGUMENTS = (
    "race", "races", "strategy", "schedule", "processes", "max_schedules", "max_seconds", "form",
)  # fmt: skip
READ = "Each digit of a schedule is the process that takes the next step."


class OneLineParser(CommandParser):
    """A parser that prints an error without the usage above it."""

    def error(self, message: str) -> NoReturn:
        if not self.called_from_command_line:
            super().error(message)  # which raises
        self.exit(2, f"{self.prog}: {message}\n")


def limit(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)


class Command(BaseCommand):
    """Works in the lab's scratch database."""

    help = "Explore races: run every schedule of the processes' SQL statements; count violations."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(
            required=True,
            metavar="list | explore | show | counts | matrix | serial",
            parser_class=OneLineParser,
        )

        def action(run: Callable[..., None], text: str) -> CommandParser:
            name = run.__name__.removeprefix("run_")
            subparser: CommandParser = actions.add_parser(name, help=text, description=text)
            subparser.set_defaults(run=run)
            return subparser

        action(self.run_list, "List the races.")
        explore = action(
            self.run_explore, "Run every schedule, and count those that violate the invariant."
        )
        explore.add_argument("race", nargs="?", type=race_named, help="default: all races")
        explore.add_argument("strategy", nargs="?", default="", help="default: all strategies")
        show = action(self.run_show, "Draw one schedule, step by step.")
        show.add_argument("race", type=race_named)
        show.add_argument("strategy")
        show.add_argument(
            "--schedule",
            help="such as 1212; default: the counterexample, or else the first schedule",
        )
        count = action(self.run_counts, "Write lab/races/counts.json, which the pages show.")
        count.add_argument("races", nargs="*", type=race_named, help="default: all races")
        table = action(
            self.run_matrix,
            "Print that file as tables: violating / all schedules; ✗ wrong, ⊘ refused.",
        )
        form = table.add_mutually_exclusive_group()
        for name, text in (("json", "a list of the cells"), ("markdown", "tables for a document")):
            form.add_argument(f"--{name}", dest="form", action="store_const", const=name, help=text)
        smallest = "default: the race's smallest number"
        numbers = sorted({count for race in RACES.values() for count in race.counts})
        table.add_argument("--processes", type=int, choices=numbers, help=smallest)
        action(
            self.run_serial, "Compare the verdicts without an invariant with those in that file."
        )
        for each in (explore, show):
            each.add_argument("--processes", default="", help=smallest)
            each.add_argument("--max-schedules", type=limit, default=MAX_SCHEDULES)
            each.add_argument(
                "--max-seconds", type=limit, default=MAX_SECONDS, help="for each search"
            )

    def handle(self, *args: Any, run: Callable[..., None], **options: Any) -> None:
        try:
            run(**{name: options[name] for name in ARGUMENTS if name in options})
            self.stdout.flush()
        except BrokenPipeError:  # the reader has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from None
        except KeyboardInterrupt:
            raise CommandError("Interrupted.", returncode=130) from None
        except (InterleaveError, LabRefusal) as error:
            raise CommandError(str(error), returncode=2) from error
        except DatabaseError as error:
            raise CommandError(f"Database error: {error}".strip(), returncode=2) from error

    def run_list(self) -> None:
        for race in [*RACES.values(), WRITE_SKEW]:
            self._list(race)
        self.stdout.write("\nThe museum: races found in real shorteners.\n\n")
        for exhibit in MUSEUM.values():
            self._list(exhibit)
            self.stdout.write(f"    Found in: {exhibit.source}")

    def _list(self, race: Race) -> None:
        self.stdout.write(f"{race.name} ({race.operation}, {race.takes})")
        self.stdout.write(f"    {race.situation}")
        self.stdout.write(f"    Invariant: {race.must_hold}")
        self.stdout.write(f"    Signature of a strategy: {race.signature}")

    def run_explore(self, race: Race | None, strategy: str, processes: str, **limits: int) -> None:
        found = []
        for each in [race] if race else RACES.values():
            try:
                chosen = [each.strategy(strategy)] if strategy else [*each.strategies.values()]
                found.append((each, each.number_of_processes(processes), chosen))
            except NotFound:
                if race:
                    raise
        if not found:
            raise CommandError(f"No race takes {processes} processes.", returncode=2)
        self.stdout.write(READ)
        with self._scratch():
            for each, count, chosen in found:
                self.stdout.write(f"{each.name}, {count} processes. Invariant: {each.must_hold}")
                for one in chosen:
                    result = each.explore(one, count, **limits)
                    self.stdout.write(f"    {one.name}: {describe(result)}")
                    self._note(one)

    def run_show(
        self,
        race: Race,
        strategy: str,
        schedule: str | None,
        processes: str,
        **limits: int,
    ) -> None:
        one, count = race.strategy(strategy), race.number_of_processes(processes)
        with self._scratch():
            title = f"schedule {schedule}"
            if schedule is None:
                result = race.explore(one, count, **limits)
                worst = result.counterexample
                schedule = worst.order if worst else result.orders[0]
                which = "one of them" if worst else "the first"
                title = f"{counted_as(result)}; {which}: {schedule}"
            shown = race.run(one, count, schedule)
        self.stdout.write(f"{race.name} × {one.name}: {title}\n{READ}\n\n{self._draw(shown)}\n")
        holds = f"Holds: {race.must_hold}"
        self.stdout.write(f"Violated: {shown.violation}." if shown.violation else holds)
        self._note(one)

    def _note(self, strategy: Strategy) -> None:
        if strategy.note:
            self.stdout.write(f"    Note: {strategy.note}")

    def run_matrix(self, processes: int | None, form: str | None) -> None:
        if form == "json":
            self.stdout.write(json.dumps(matrix.data(processes), indent=1))
        else:
            self.stdout.write((matrix.markdown if form else matrix.text)(processes))

    def run_counts(self, races: list[Race]) -> None:
        found = dict(counts.COUNTS)
        with self._scratch():
            for job in counted():
                if not races or job.race in races:
                    result = counts.explore(job)
                    self._say(f"{job}: {counted_as(result)}")
                    found.pop(f"{job}", None)
                    if result.complete:
                        found[f"{job}"] = counts.Count(
                            result.violating, result.schedules, result.raising
                        )
        counts.write({job: found[job] for job in map(str, counted()) if job in found})

    def run_serial(self) -> None:
        found = []
        with self._scratch():
            for each in as_if_serial.verdicts():
                found.append(each)
                if each.differ:
                    called = "wrong: " + each.example if each.by_serial_orders else "right"
                    self.stdout.write(
                        f"{each.job.race.name} × {each.job.strategy.name} is {called}"
                    )
        self.stdout.write(as_if_serial.summary(found))

    def _draw(self, schedule: Schedule) -> str:
        """Draw the schedule; on a terminal, fit it to the width, down to 24 columns a lane."""
        if not self.stdout.isatty():
            return schedule.draw()
        columns = len(schedule.outcomes) + 1
        return schedule.draw(max(24, min(40, get_terminal_size().columns // columns - 3)))

    def _scratch(self) -> AbstractContextManager[str]:
        return scratch_database(lambda: self._say("Another exploration is running."))

    def _say(self, text: str) -> None:
        self.stderr.write(text, style_func=str)  # no colour, because it is not an error


def counted_as(result: Exploration) -> str:
    if result.truncated:
        return str(result)
    return f"{result.violating:,} of {result.schedules:,} schedules violate the invariant"


def describe(result: Exploration) -> str:
    """Return the counts, and the counterexample if there is one."""
    text = counted_as(result)
    if worst := result.counterexample:
        text += f", for example {worst.order}: {worst.violation}"
    return text
