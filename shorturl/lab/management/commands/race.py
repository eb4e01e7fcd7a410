"""`manage.py race`: list, explore and show races, and judge a strategy of one's own."""

import json
from argparse import ArgumentTypeError
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.utils.module_loading import import_string

from shorturl.lab import matrix
from shorturl.lab.interleave import Exploration, InterleaveError
from shorturl.lab.race import Race
from shorturl.lab.races import RACES
from shorturl.lab.scratch import scratch_database
from shorturl.strategies import Strategy, Verdict

MAX_SCHEDULES = 20_000
MAX_SECONDS = 120


def race(name: str) -> Race:
    """Return the race called `name`; raise ArgumentTypeError, naming them all, without one."""
    if name not in RACES:
        raise ArgumentTypeError(f"there is no race {name!r}; there are {', '.join(RACES)}")
    return RACES[name]


def function(path: str) -> Callable[..., Any]:
    """Return the function at `package.module:function`; raise ArgumentTypeError without one."""
    try:
        found = import_string(path.replace(":", ".", 1))
    except ImportError as error:
        raise ArgumentTypeError(
            f"{path!r} cannot be imported ({error}); write it like package.module:function"
        ) from error
    if not callable(found):
        raise ArgumentTypeError(f"{path!r} is no function but a {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def limit(text: str) -> int:
    """Return the whole number from 1 up that `text` is; raise ArgumentTypeError otherwise."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is no whole number from 1 up")
    return int(text)


class Command(BaseCommand):
    """Works in a database of its own, which it makes and drops."""

    help = "Explore races: run every order of the processes' SQL statements, and count what breaks."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

        def action(name: str, run: Callable[..., None], text: str) -> CommandParser:
            subparser: CommandParser = actions.add_parser(name, help=text, description=text)
            subparser.set_defaults(run=run)
            return subparser

        action("list", self.run_list, "List the races.")

        explore = action("explore", self.run_explore, "Run every schedule, and count what breaks.")
        explore.add_argument("race", nargs="?", type=race, help="one race; all without it")
        explore.add_argument("--strategy", help="one strategy; all without it")
        self._add_limits(explore)

        show = action("show", self.run_show, "Draw one schedule, step by step.")
        show.add_argument("race", type=race)
        show.add_argument("strategy")
        show.add_argument("--schedule", help="like 1212; without it the witness, or the first")
        self._add_limits(show)

        table = action("matrix", self.run_matrix, "Print strategies × races: broken / all.")
        table.add_argument(
            "--json", action="store_true", dest="as_json", help="as a list of objects"
        )
        self._add_limits(table)

        check = action("check", self.run_check, "Judge a function of your own as a strategy.")
        check.add_argument("race", type=race)
        check.add_argument("function", type=function, help="package.module:function")
        self._add_limits(check)

    def _add_limits(self, parser: CommandParser) -> None:
        parser.add_argument("--processes", type=limit, help="how many; by default the race's own")
        parser.add_argument("--max-schedules", type=limit, default=MAX_SCHEDULES)
        parser.add_argument("--max-seconds", type=limit, default=MAX_SECONDS, help="for each race")

    def handle(self, *args: Any, run: Callable[..., None], **options: Any) -> None:
        try:
            run(**options)
        except InterleaveError as error:
            raise CommandError(str(error), returncode=2) from error
        except DatabaseError as error:
            raise CommandError(f"The database: {error}".strip(), returncode=2) from error

    def run_list(self, **options: Any) -> None:
        for race in RACES.values():
            counts = " or ".join(map(str, race.counts))
            self.stdout.write(f"{race.name} ({race.operation}, {counts} processes)")
            self.stdout.write(f"    {race.situation}")
            self.stdout.write(f"    Must hold: {race.must_hold}")

    def run_explore(self, race: Race | None, strategy: str | None, **options: Any) -> None:
        races = [race] if race else list(RACES.values())
        with self._scratch():
            for each in races:
                count = number_of_processes(each, options["processes"])
                chosen = [find(each, strategy)] if strategy else each.strategies.values()
                self.stdout.write(f"{each.name}, {count} processes. Must hold: {each.must_hold}")
                for one in chosen:
                    result = each.explore(one, count, **limits(options))
                    self.stdout.write(f"    {one.name}: {describe(result)}")

    def run_show(self, race: Race, strategy: str, schedule: str | None, **options: Any) -> None:
        one, count = find(race, strategy), number_of_processes(race, options["processes"])
        with self._scratch():
            title = f"schedule {schedule}"
            if schedule is None:
                result = race.explore(one, count, **limits(options))
                schedule = result.witness.order if result.witness else result.orders[0]
                which = "the shortest" if result.witness else "the first"
                title = f"{result}; this is {which}, {schedule}"
            shown = race.run(one, count, schedule)
        self.stdout.write(f"{race.name} × {one.name}: {title}\n\n{shown.draw()}\n")
        holds = f"Holds: {race.must_hold}"
        self.stdout.write(f"Broken: {shown.broken}." if shown.broken else holds)

    def run_matrix(self, as_json: bool, **options: Any) -> None:
        with self._scratch():
            cells = list(matrix.cells(options["processes"], **limits(options)))
        if as_json:
            self.stdout.write(json.dumps([asdict(cell) for cell in cells], indent=1))
        else:
            self.stdout.write(matrix.markdown(cells))

    def run_check(self, race: Race, function: Callable[..., Any], **options: Any) -> None:
        name = f"{function.__module__}:{function.__name__}"
        mine = Strategy(name, function, Verdict.RIGHT, "–", "")
        count = number_of_processes(race, options["processes"])
        with self._scratch():
            result = race.explore(mine, count, **limits(options))
            if result.witness:
                shown = race.run(mine, count, result.witness.order)
                text = f"{shown.draw()}\n\nBroken: {shown.broken}."
                raise CommandError(f"{race.name} × {name}: {result}. The shortest:\n\n{text}")
        if not result.complete:
            raise CommandError(f"{race.name} × {name}: not proven: {result}", returncode=2)
        self.stdout.write(f"{race.name} × {name}: holds. {result}.")

    def _scratch(self) -> AbstractContextManager[str]:
        self.stderr.write("Working in a database of its own, which is dropped at the end.")
        return scratch_database()


def limits(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("max_schedules", "max_seconds")}


def number_of_processes(race: Race, wanted: int | None) -> int:
    """Return how many processes take part; raise CommandError for a number that cannot."""
    least, most = min(race.counts), 9 if max(race.counts) > 1 else 1
    if wanted and not least <= wanted <= most:
        between = str(most) if least == most else f"{least} to {most}"
        raise CommandError(f"{race.name} takes {between} processes, not {wanted}.", returncode=2)
    return wanted or least


def find(race: Race, name: str) -> Strategy[Any]:
    """Return the strategy called `name`; raise CommandError when it does not take part."""
    if name not in race.strategies:
        there_are = ", ".join(race.strategies)
        raise CommandError(
            f"{name!r} takes no part in {race.name}; there are {there_are}.", returncode=2
        )
    return race.strategies[name]


def describe(result: Exploration) -> str:
    """Return the count, and the witness if there is one."""
    if result.witness is None:
        return str(result)
    return f"{result}, for example {result.witness.order}: {result.witness.broken}"
