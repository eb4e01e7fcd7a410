"""What the arguments of `manage.py race` stand for."""

from argparse import ArgumentTypeError
from typing import NoReturn

from django.core.management.base import CommandParser
from django.utils.module_loading import import_string

from lab.catalogue import EVERY_RACE
from lab.catalogue.race_definition import Race
from lab.workshop.exercise_races import RACES as EXERCISE_RACES
from lab.workshop.exercises import EXERCISES, Exercise
from lab.workshop.find_the_schedule import PUZZLES, Puzzle
from lab.workshop.submission import Submission


class OneLineParser(CommandParser):
    """A parser that says what is wrong without printing the usage above it."""

    def error(self, message: str) -> NoReturn:
        if not self.called_from_command_line:
            super().error(message)  # which raises
        self.exit(2, f"{self.prog}: {message}\n")


def race(name: str) -> Race:
    """Return the race called `name`; raise ArgumentTypeError, naming them all, without one."""
    if name not in EVERY_RACE:
        raise ArgumentTypeError(f"there is no race {name!r}; there are {', '.join(EVERY_RACE)}")
    return EVERY_RACE[name]


def judge(name: str) -> Race | Puzzle:
    """Return the race or puzzle called `name`, those of the exercises too; raise as race() does."""
    return PUZZLES.get(name) or EXERCISE_RACES.get(name) or race(name)


def exercise(name: str) -> Exercise:
    """Return the exercise called `name`; raise ArgumentTypeError, naming them all, without one."""
    if name not in EXERCISES:
        raise ArgumentTypeError(f"there is no exercise {name!r}; there are {', '.join(EXERCISES)}")
    return EXERCISES[name]


def function(path: str) -> Submission:
    """Return the function at `package.module:function`; raise ArgumentTypeError without one."""
    try:
        found = import_string(path.replace(":", ".", 1))
    except Exception as error:  # a module of the user's own can fail in any way
        hint = "" if ":" in path else "; write it like package.module:function"
        raise ArgumentTypeError(
            f"{path!r} cannot be imported ({type(error).__name__}: {error}){hint}"
        ) from error
    if not callable(found):
        raise ArgumentTypeError(f"{path!r} is not a function: its type is {type(found).__name__}")
    return Submission(path, found)


def limit(text: str) -> int:
    """Return the whole number from 1 up that `text` is; raise ArgumentTypeError otherwise."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)
