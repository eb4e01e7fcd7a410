"""The exceptions of the lab; the message says why it refuses, and the commands print it."""


class LabRefusal(Exception):
    """The lab cannot do what it was asked for."""


class NotFound(LabRefusal, ValueError):
    """The lab has no such race, strategy, number of processes, isolation level or schedule."""


class AlreadyExploring(LabRefusal):
    """Another exploration is running; wait for it to end."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)
