"""Tables in Markdown and for a terminal, without tabulate, which only development installs."""

from collections.abc import Iterable, Sequence


def format_markdown(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown: the titles and the rows."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def format_aligned(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table for a terminal, with spaces between the columns."""
    rows = [titles, *rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
