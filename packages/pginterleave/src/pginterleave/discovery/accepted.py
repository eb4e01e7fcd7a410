"""The races that a project accepts, from `interleave_accepted` in its ini file."""

import re
from collections.abc import Iterable, Sequence

import pytest

from pginterleave.discovery.findings import KINDS, Race

FORM = re.compile(rf"(?P<name>.+?) (?P<kind>{'|'.join(KINDS)}): *(?P<reason>\S.*)")


class Accepted:
    """The lines of the option, such as `POST shop:redeem twice: a second click is harmless`."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.reasons: dict[tuple[str, str], str] = {}  # by name and kind
        for line in lines:
            match = FORM.fullmatch(line)
            if not match:
                raise pytest.UsageError(
                    f"interleave_accepted has {line!r}, and needs the name, the kind and a reason, "
                    "as in `POST shop:redeem twice: a second click is harmless`. The kinds are "
                    f"{', '.join(KINDS)}."
                )
            self.reasons[match["name"], match["kind"]] = match["reason"]

    def accept(self, races: Iterable[Race]) -> None:
        """Give each race that is accepted its reason."""
        for race in races:
            race.accepted = self.reasons.get((race.name, race.kind), "")

    def list_unused(self, races: Iterable[Race]) -> list[str]:
        """Return what is accepted and has not occurred."""
        occurred = {(race.name, race.kind) for race in races}
        return [f"{name} {kind}" for name, kind in self.reasons if (name, kind) not in occurred]
