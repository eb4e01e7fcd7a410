"""Says how two ends differ: the most telling difference in a sentence, and all in a table."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pginterleave.formatting import format_processes
from pginterleave.judging.values import Path

MAX_SHOWN = 4  # columns of a row, or parts of a value, in a text
MAX_LINES = 12  # of a table
MAX_TEXT_LENGTH = 48  # characters of a value; of a longer one, those around the difference
CONTEXT_LENGTH = 12  # characters that are shown before the first one that differs
ORDINALS = ("first", "second", "third", "fourth")  # of at most MAX_COMPARED_PROCESSES
PRESENT = {"returned": "returns", "raised": "raises"}
Parts = Mapping[Path, str]  # what a process returned or raised; each path begins with the verb


class Difference(NamedTuple):
    """What differs, and how it is in the one end (`here`) and in the other (`there`).

    In a sentence, `verb` is before both. `process` is the number of the process that has returned
    or raised this, or 0; `same` are the numbers of all processes that have ended so here.
    """

    what: str
    here: str
    there: str
    verb: str = ""
    process: int = 0
    same: tuple[int, ...] = ()


def compare_outcomes(end: Sequence[Parts], other: Sequence[Parts]) -> Iterator[Difference]:
    """Yield how the outcomes of the processes differ from those in another end."""
    for process, (parts, parts_there) in enumerate(zip(end, other, strict=True), start=1):
        for here, there, path in _compare_parts(parts, parts_there):
            same = []
            for number, each in enumerate(end, start=1):
                if each == parts or (path and each.get(path) == parts[path]):
                    same.append(number)
            what = format_processes([process])
            yield Difference(what, here, there, process=process, same=tuple(same))


def compare_values(name: str, parts: Parts, parts_there: Parts) -> Iterator[Difference]:
    """Yield how a value that no process returned differs from the one in another end."""
    for here, there, _ in _compare_parts(parts, parts_there):
        yield Difference(name, here.removeprefix("is "), there.removeprefix("is "), verb="is ")


def _compare_parts(here: Parts, there: Parts) -> Iterator[tuple[str, str, Path | None]]:
    """Yield each part that differs, as a text here and there, with its path.

    If the values have other parts, the two texts are of all parts, with None.
    """
    if here.keys() != there.keys():
        text, text_there = cut_texts(_join_parts(here, there), _join_parts(there, here))
        # All paths of a value begin with its verb.
        yield f"{next(iter(here))[0]} {text}", f"{next(iter(there))[0]} {text_there}", None
        return
    for path in [path for path in here if here[path] != there[path]][:MAX_SHOWN]:
        before = " ".join([path[0], *_name_part(path)])
        text, text_there = cut_texts(here[path], there[path])
        yield f"{before} {text}", f"{before} {text_there}", path


def write_point(differences: Sequence[Difference], order: Sequence[int], reference: str) -> str:
    """Return how an end differs from that of a serial order, in two sentences.

    "both returned True. One after the other, the second returns False." They have the first
    difference of each process, if the first one of all is a process's; or else that one. "The
    second" is said only if the order is 1, 2, …; in another order it is "process 2".
    """
    first = differences[0]
    is_ascending = list(order) == sorted(order)
    in_turn = reference + ("one after the other" if is_ascending else write_order(order))
    in_turn = f"{in_turn[0].upper()}{in_turn[1:]}"
    if not first.process:
        return f"{first.what} {first.verb}{first.here}. {in_turn}, it {first.verb}{first.there}."
    first_of_each: dict[int, Difference] = {}
    for difference in differences:
        if difference.process:
            first_of_each.setdefault(difference.process, difference)
    here = []
    there = []
    for process, difference in first_of_each.items():
        who = format_processes(difference.same)
        if len(difference.same) == len(order) > 1:
            who = "both" if len(order) == 2 else "all"
        here.append(f"{who} {difference.here}")
        verb, _, rest = difference.there.partition(" ")
        name = f"the {ORDINALS[process - 1]}" if is_ascending else difference.what
        if len(first_of_each) == len(difference.same) == 1:  # "process 2 returned 1. …, it …"
            name = "it"
        there.append(f"{name} {PRESENT[verb]} {rest}")
    return f"{' and '.join(dict.fromkeys(here))}. {in_turn}, {' and '.join(there)}."


def write_order(order: Sequence[int]) -> str:
    return f"in the order {', '.join(map(str, order))}"


def write_table(differences: Sequence[Difference], here: str, there: str) -> str:
    """Return a line for each difference, below a line with the names of both ends."""
    rows = [(each.what, each.here, each.there) for each in differences[:MAX_LINES]]
    rows.insert(0, ("", here, there))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        padded = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        lines.append("  ".join(padded).rstrip())
    if len(differences) > MAX_LINES:
        lines.append(f"and {len(differences) - MAX_LINES} more")
    return "\n".join(lines)


def write_row(columns: Iterable[tuple[str, str]], hidden: str) -> str:
    """Return the names and values of a row, without the values `hidden` if it has others."""
    texts = [f"{name} = {_cut(text)}" for name, text in columns if text != hidden]
    return f"({_join_first(texts)})" if texts else "(with new ids alone)"


def count_rows(number: int) -> str:
    return f"{number or 'no'} row{'s' * (number > 1)}"


def cut_texts(here: str, there: str) -> tuple[str, str]:
    """Return two texts; of a long one, the part around the first character that differs."""
    pairs = zip(here, there, strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    begin = max(0, same - CONTEXT_LENGTH)
    return _cut(here, begin), _cut(there, begin)


def _cut(text: str, begin: int = 0) -> str:
    if len(text) <= MAX_TEXT_LENGTH:
        return text or "''"
    end = begin + MAX_TEXT_LENGTH
    return "…" * (begin > 0) + text[begin:end] + "…" * (len(text) > end)


def _join_parts(parts: Parts, other: Parts) -> str:
    """Write the parts that another value does not have, or has otherwise."""
    differing = [(path, text) for path, text in parts.items() if other.get(path) != text]
    texts = [" ".join([*_name_part(path), text]) for path, text in differing]
    return _join_first(texts) or "no more"


def _name_part(path: Path) -> list[str]:
    """Return the name of a part, and "=" after it; an only part has no name."""
    name = ".".join(filter(None, path[1:]))
    return [name, "="] if name else []


def _join_first(texts: Sequence[str]) -> str:
    more = ["…"] if len(texts) > MAX_SHOWN else []
    return ", ".join([*texts[:MAX_SHOWN], *more])
