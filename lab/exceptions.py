"""The exceptions of the lab; the message says why it refuses, and the commands print it."""


class LabRefusal(Exception):
    """The lab cannot do what it was asked for."""


class MayNotCreateDatabases(LabRefusal):
    """The role may not create databases, and races need one of their own."""

    def __init__(self, role: str) -> None:
        super().__init__(
            f"The role {role!r} may not create databases, and races need one of their own: "
            f"ALTER ROLE {role} CREATEDB"
        )


class TakesNoPart(LabRefusal, ValueError):
    """A race has no such strategy, or cannot have so many processes."""


class AlreadyExploring(LabRefusal):
    """Another exploration is running; wait for it to end."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)
