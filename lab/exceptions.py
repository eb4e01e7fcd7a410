"""The exceptions of the lab; commands print their messages."""

from argparse import ArgumentTypeError


class NotFound(ArgumentTypeError):
    """The lab has no such race, strategy, number of processes, isolation level or schedule.

    A command prints the message of an ArgumentTypeError that an argument's `type` raises.
    """


class NotRecorded(NotFound):
    """A cell has no recording; the message has the command that records it."""
