"""The races that a project accepts, from `interleave_accepted` in its ini file."""

import re
from collections.abc import Iterable, Sequence

import pytest

from pginterleave.discovery.findings import KINDS, Race

FORM = re.compile(rf"(?P<name>.+?) (?P<kind>{'|'.join(KINDS)}): *(?P<reason>\S.*)")
Key = tuple[frozenset[str], str]  # the names of both requests, and the kind
BESIDE = " beside "


class Accepted:
    """The lines of the option, such as `POST shop:redeem twice: a second click is harmless`."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.reasons: dict[Key, str] = {}
        for line in lines:
            match = FORM.fullmatch(line)
            if not match:
                raise pytest.UsageError(
                    f"interleave_accepted has {line!r}, and needs the name, the kind and a reason, "
                    "as in `POST shop:redeem twice: a second click is harmless`. The kinds are "
                    f"{', '.join(KINDS)}."
                )
            self.reasons[make_key(match["name"], match["kind"])] = match["reason"]

    def accept(self, races: Iterable[Race]) -> None:
        """Give each race that is accepted its reason."""
        for race in races:
            race.accepted = self.reasons.get(make_key(race.name, race.kind), "")

    def list_unused(self, races: Iterable[Race]) -> list[str]:
        """Return what is accepted and has not occurred."""
        occurred = {make_key(race.name, race.kind) for race in races}
        unused = [key for key in self.reasons if key not in occurred]
        return [f"{BESIDE.join(sorted(names))} {kind}" for names, kind in unused]


def make_key(name: str, kind: str) -> Key:
    """Return a race's key; which of two requests is the first depends on the order of the tests."""
    return frozenset(name.split(BESIDE)), kind
