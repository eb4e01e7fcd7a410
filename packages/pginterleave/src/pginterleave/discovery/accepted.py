"""The races that a project accepts, from `interleave_accepted` in its ini file."""

import re
from collections.abc import Iterable, Sequence

import pytest

from pginterleave.discovery.findings import KINDS, Race, RaceKey

FORM = re.compile(rf"(?P<name>.+?) (?P<kind>{'|'.join(KINDS)}): *(?P<reason>\S.*)")


class Accepted:
    """The lines of the option, such as `POST shop:redeem twice: a second click is harmless`."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.reasons: dict[RaceKey, str] = {}
        for line in lines:
            match = FORM.fullmatch(line)
            if not match:
                raise pytest.UsageError(
                    f"interleave_accepted has {line!r}, and needs the name, the kind and a reason, "
                    "as in `POST shop:redeem twice: a second click is harmless`. The kinds are "
                    f"{', '.join(KINDS)}."
                )
            names = match["name"].split(" beside ")
            self.reasons[frozenset(names), match["kind"]] = match["reason"]

    def accept(self, races: Iterable[Race]) -> None:
        """Give each race that is accepted its reason."""
        for race in races:
            race.accepted = self.reasons.get(race.key, "")

    def list_unused(self, races: Iterable[Race]) -> list[str]:
        """Return what is accepted and has not occurred."""
        unused = self.reasons.keys() - {race.key for race in races}
        return sorted(f"{' beside '.join(sorted(names))} {kind}" for names, kind in unused)
