"""`manage.py race`: list, explore and show races."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from shutil import get_terminal_size
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from lab.catalogue import RACES, matrix
from lab.catalogue.museum import MUSEUM
from lab.catalogue.race_definition import MAX_SCHEDULES, MAX_SECONDS, Race
from lab.catalogue.write_skew import WRITE_SKEW
from lab.exceptions import LabRefusal, TakesNoPart
from lab.management import race_arguments as arguments
from lab.scratch_database import scratch_database
from pginterleave import Exploration, InterleaveError, Schedule
from shorturl.strategies import Strategy


class Command(BaseCommand):
    """Works in a database of its own, which it makes and drops."""

    help = "Explore races: run every schedule of the processes' SQL statements; count violations."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(
            dest="action",
            required=True,
            metavar="ACTION",
            parser_class=arguments.OneLineParser,
        )

        def action(name: str, run: Callable[..., None], text: str) -> CommandParser:
            subparser: CommandParser = actions.add_parser(name, help=text, description=text)
            subparser.set_defaults(run=run)
            return subparser

        action("list", self.run_list, "List the races.")

        explore = action(
            "explore",
            self.run_explore,
            "Run every schedule, and count those that violate the invariant.",
        )
        explore.add_argument(
            "race", nargs="?", type=arguments.race, help="one race; all without it"
        )
        explore.add_argument("--strategy", help="one strategy; all without it")
        self._add_limits(explore)

        show = action("show", self.run_show, "Draw one schedule, step by step.")
        show.add_argument("race", type=arguments.race)
        show.add_argument("strategy")
        show.add_argument(
            "--schedule", help="like 1212; by default the counterexample, or the first"
        )
        self._add_limits(show)

        table = action(
            "matrix", self.run_matrix, "Print strategies × races: violating / all schedules."
        )
        self._add_limits(table)

    def _add_limits(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--processes", type=arguments.limit, help="how many; by default the race's own"
        )
        parser.add_argument("--max-schedules", type=arguments.limit, default=MAX_SCHEDULES)
        parser.add_argument(
            "--max-seconds", type=arguments.limit, default=MAX_SECONDS, help="for each search"
        )

    def handle(self, *args: Any, run: Callable[..., None], **options: Any) -> None:
        try:
            run(**options)
            self.stdout.flush()
        except BrokenPipeError:  # the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from None
        except KeyboardInterrupt:
            raise CommandError("Interrupted; its database is dropped.", returncode=130) from None
        except (InterleaveError, LabRefusal) as error:
            raise CommandError(str(error), returncode=2) from error
        except DatabaseError as error:
            raise CommandError(f"The database: {error}".strip(), returncode=2) from error

    def run_list(self, **options: Any) -> None:
        for race in [*RACES.values(), WRITE_SKEW]:
            self._list(race)
        self.stdout.write("\nThe museum: races that were found in real shorteners.\n\n")
        for exhibit in MUSEUM.values():
            self._list(exhibit)
            self.stdout.write(f"    Found in: {exhibit.source}")

    def _list(self, race: Race) -> None:
        counts = " or ".join(map(str, race.counts))
        processes = "process" if race.counts == (1,) else "processes"
        self.stdout.write(f"{race.name} ({race.operation}, {counts} {processes})")
        self.stdout.write(f"    {race.situation}")
        self.stdout.write(f"    Invariant: {race.must_hold}")
        self.stdout.write(f"    A strategy is called like {race.signature}")

    def run_explore(self, race: Race | None, strategy: str | None, **options: Any) -> None:
        wanted = options["processes"]
        if race:  # then what cannot take part is a mistake, said before anything is made
            races = [race]
            race.number_of_processes(wanted)
            if strategy:
                race.strategy(strategy)
        else:
            races = [each for each in RACES.values() if takes_part(each, strategy, wanted)]
        if not races:
            raise CommandError("No race has this strategy and so many processes.", returncode=2)
        with self._scratch():
            for each in races:
                count = each.number_of_processes(wanted)
                chosen = [each.strategy(strategy)] if strategy else each.strategies.values()
                self.stdout.write(f"{each.name}, {count} processes. Invariant: {each.must_hold}")
                for one in chosen:
                    result = each.explore(one, count, reduce=True, **limits(options))
                    self.stdout.write(f"    {one.name}: {describe(result)}")
                    self._note(one)

    def run_show(self, race: Race, strategy: str, schedule: str | None, **options: Any) -> None:
        one, count = race.strategy(strategy), race.number_of_processes(options["processes"])
        with self._scratch():
            title = f"schedule {schedule}"
            if schedule is None:
                result = race.explore(one, count, **limits(options))
                schedule = (
                    result.counterexample.order if result.counterexample else result.orders[0]
                )
                which = "the shortest" if result.counterexample else "the first"
                title = f"{result}; {which}: {schedule}"
            shown = race.run(one, count, schedule)
        self.stdout.write(f"{race.name} × {one.name}: {title}\n\n{self._draw(shown)}\n")
        holds = f"Holds: {race.must_hold}"
        self.stdout.write(f"Violated: {shown.violation}." if shown.violation else holds)
        self._note(one)

    def _note(self, strategy: Strategy[Any]) -> None:
        if strategy.note:
            self.stdout.write(f"    Note: {strategy.note}")

    def run_matrix(self, **options: Any) -> None:
        wanted = options["processes"]
        counts = {count for race in RACES.values() for count in race.counts}
        if wanted and wanted not in counts:
            there_are = ", ".join(map(str, sorted(counts)))
            raise CommandError(f"There is a matrix for {there_are} processes.", returncode=2)
        with self._scratch():
            cells = []
            for cell in matrix.cells(wanted, **limits(options)):
                cells.append(cell)
                self._say(f"{cell.race} × {cell.strategy}: {cell}")
        self.stdout.write(matrix.markdown(cells))

    def _draw(self, schedule: Schedule) -> str:
        """Return the schedule drawn, on a terminal no wider than that, if it can be read then."""
        if not self.stdout.isatty():
            return schedule.draw()
        columns = len(schedule.outcomes) + 1
        return schedule.draw(max(24, min(40, get_terminal_size().columns // columns - 3)))

    def _scratch(self) -> AbstractContextManager[str]:
        self._say("Working in a database of its own, which is dropped at the end.")
        return scratch_database()

    def _say(self, text: str) -> None:
        self.stderr.write(text, style_func=str)  # it is not an error


def takes_part(race: Race, strategy: str | None, processes: int | None) -> bool:
    """Return whether the race can be explored so."""
    with suppress(TakesNoPart):
        race.number_of_processes(processes)
        return strategy is None or bool(race.strategy(strategy))
    return False


def limits(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("max_schedules", "max_seconds")}


def describe(result: Exploration) -> str:
    """Return the counts, of all schedules, and the counterexample if there is one."""
    text = (
        str(result)
        if result.truncated
        else f"{result.violating} of {result.schedules} schedules violate the invariant"
    )
    if result.counterexample is None:
        return text
    return f"{text}, for example {result.counterexample.order}: {result.counterexample.violation}"
