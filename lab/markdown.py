"""Tables in Markdown, without tabulate, which only development installs."""

from collections.abc import Iterable, Sequence


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return the rows below their titles."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
