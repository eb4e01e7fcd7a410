"""Writes what a discovery has found as text, without the races that a project accepts."""

import re
from collections.abc import Iterable, Iterator, Sequence

import pytest

from pginterleave.discovery.findings import (
    KINDS,
    Discovery,
    Race,
    join_names,
    split_names,
)

FORM = re.compile(rf"(?P<name>.+?) (?P<kind>{'|'.join(KINDS)}): *(?P<reason>\S.*)")
MAX_LINES = 10  # of a list; all of them with -v
MAX_LENGTH = 300  # of a sentence or a statement
MAX_RESULT_LENGTH = 80  # of the first row that a statement returns


class Accepted:
    """The lines of the option, such as `POST shop:redeem twice: a second click is harmless`."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.reasons: dict[tuple[frozenset[str], str], str] = {}  # by the names and the kind
        self.unused: list[str] = []  # what has not occurred
        for line in lines:
            match = FORM.fullmatch(line)
            if not match:
                raise pytest.UsageError(
                    f"interleave_accepted has {line!r}, and needs the name, the kind and a reason, "
                    "as in `POST shop:redeem twice: a second click is harmless`. The kinds are "
                    f"{', '.join(KINDS)}."
                )
            self.reasons[split_names(match["name"]), match["kind"]] = match["reason"]

    def accept(self, races: Iterable[Race]) -> None:
        """Give a reason to each race that is accepted of all requests that share it.

        `unused` is what did not occur.
        """
        unused = dict(self.reasons)
        for race in races:
            keys = [(names, race.kind) for names in race.list_pairs()]
            reasons = [self.reasons.get(key, "") for key in keys]
            race.accepted = reasons[0] if all(reasons) else ""
            for key in keys:
                unused.pop(key, None)
        self.unused = [f"{join_names(sorted(names))} {kind}" for names, kind in unused]


def write_report(results: Discovery, accepted: Accepted, verbosity: int) -> Iterator[str]:
    """Yield the lines of the report."""
    is_verbose = verbosity > 0
    yield from _write_counts(results)
    for race in results.list_failing():
        yield ""
        yield from write_race(race)
    races = results.sort_races()
    answers = [race for race in races if race.kind == "answers" and not race.accepted]
    if answers:
        yield ""
        listed = ":" if is_verbose else "; -v lists them."
        yield f"{len(answers)} of kind answers, {KINDS['answers']}{listed}"
        for race in answers if is_verbose else ():
            yield from write_race(race)
    for race in races:
        if race.accepted:
            yield f"Accepted: {race.name} {race.kind}: {race.accepted}"
    for text in accepted.unused:
        yield f"Accepted, but did not occur: {text}"
    yield from _write_left(results, is_verbose)
    yield from _cut([f"May undo: {line}" for line in results.may_undo], is_verbose)


def _write_counts(results: Discovery) -> Iterator[str]:
    yield (
        f"{results.requests} requests, of which {results.writing} write. {len(results.explored)} "
        f"explorations of what is new: {len(results.decided)} decided, "
        f"{sum(bool(entry.races) for entry in results.decided)} with a race."
    )
    for bound, number in sorted(results.count_bounds().items()):
        yield f"{number} safe {bound}."


def write_race(race: Race) -> Iterator[str]:
    """Yield the lines on one race."""
    first, second = race.names
    beside = "itself" if first == second else second
    yield f"{race.kind.upper()}: {first} beside {beside}"
    yield f"  {_shorten(race.sentence.splitlines()[0])}"  # the replay shows each difference
    for statement in race.statements:
        at = f"  ({statement['where']})" if statement["where"] else ""
        result = _shorten(statement["result"], MAX_RESULT_LENGTH)
        yield f"    {statement['process']}  {_shorten(statement['sql'])} {result}{at}"
    if race.shared_by:
        yield f"  the same lines in {', '.join(race.shared_by)}"
    tests = ", ".join(race.tests)
    yield f"  in {tests}" + (f" and {len(race.also)} more" if race.also else "")
    yield f"  {race.command}"


def _write_left(results: Discovery, is_verbose: bool) -> Iterator[str]:
    """Yield what was not explored or not decided, each with the reason.

    A schedule that was wrong once may be a race, and so none is left out.
    """
    for entry in results.explored:
        for line in entry.unconfirmed:
            yield f"Not confirmed: {join_names(entry.names)} {_shorten(line)}"
    undecided = [entry for entry in results.explored if entry.reason and not entry.unconfirmed]
    lines = [f"Not decided: {join_names(e.names)}: {_shorten(e.reason)}" for e in undecided]
    lines += [f"Not explored: {e.names[0]} in {e.tests[0]}: {e.reason}" for e in results.left]
    yield from _cut(lines, is_verbose)


def _shorten(text: str, length: int = MAX_LENGTH) -> str:
    """Return a text in one line, without its end if it is longer."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length]}…"


def _cut(lines: list[str], is_verbose: bool) -> Iterator[str]:
    """Yield some lines, and without -v only the first."""
    yield from lines if is_verbose else lines[:MAX_LINES]
    if len(lines) > MAX_LINES and not is_verbose:
        yield f"… and {len(lines) - MAX_LINES} more such lines; -v lists them."
