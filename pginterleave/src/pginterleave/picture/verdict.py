"""How a schedule ends, with a sign and a colour of its own: wrong, refused, or as it should."""

from typing import NamedTuple

WRONG, REFUSED, HOLDS = "wrong", "refused", "holds"
SIGNS = {WRONG: "✗", REFUSED: "⊘", HOLDS: "✓"}


class HowItEnds(NamedTuple):
    """What there is in the end, and what was `due`, which can be empty.

    `kind` is WRONG where the invariant does not hold and nobody was told, and REFUSED where a
    process raises an exception: its caller was told.
    """

    kind: str
    text: str
    due: str = ""

    @property
    def sign(self) -> str:
        """The sign of its kind."""
        return SIGNS[self.kind]


def verdict(violation: str, *, raises: bool, due: str = "") -> HowItEnds:
    """Return how a schedule ends, from its `violation`, and whether that is that one `raises`."""
    if not violation:
        return HowItEnds(HOLDS, "the invariant holds", due)
    return HowItEnds(REFUSED if raises else WRONG, violation, due)
