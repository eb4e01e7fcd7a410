"""What the arguments of `manage.py race` stand for."""

from argparse import ArgumentTypeError
from typing import NoReturn

from django.core.management.base import CommandParser

from lab.catalogue import EVERY_RACE
from lab.catalogue.race_definition import Race


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


def limit(text: str) -> int:
    """Return the whole number from 1 up that `text` is; raise ArgumentTypeError otherwise."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)
