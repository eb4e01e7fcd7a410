"""The exceptions of the lab; commands print their messages."""


class LabRefusal(Exception):
    """The lab refuses a request; the message says why."""


class NotFound(LabRefusal):
    """The lab has no such race, strategy, number of processes, isolation level or schedule."""


class AlreadyExploring(LabRefusal):
    """Another exploration is running; wait for it to end."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)
