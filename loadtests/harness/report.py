"""What `make races` found, as data, as a table for the terminal and as Markdown for the README."""

import os
import platform
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from loadtests.harness import options, result
from loadtests.harness.verdict import Exit, Verdict

TITLES = {"creating": "To create a short URL", "resolving": "To resolve a key and count the hit"}
ORDER = {"creating": options.CREATING, "resolving": options.RESOLVING}
MARKS = {"wrong": "⛔ wrong", "right": "✅ right"}


@dataclass(frozen=True)
class Row:
    """All runs of one strategy. Throughput and times are their medians."""

    operation: str
    strategy: str
    table: str
    runs: int
    broke: int
    as_the_table_says: int
    lost: int
    of: int
    undone: int
    edits: int
    errors: int
    per_second: float
    p50: float
    p99: float

    @property
    def share(self) -> float:
        """The share of requests lost."""
        return self.lost / self.of if self.of else 0.0

    @property
    def mark(self) -> str:
        """What the strategies' table says, as the README writes it."""
        return MARKS.get(self.table, "⚠️ right alone")


def row(verdicts: list[Verdict]) -> Row:
    """Return the row of one strategy's runs, of which there is at least one."""
    first = verdicts[0]
    judged = [verdict for verdict in verdicts if verdict.exit is not Exit.NOT_JUDGED]

    def total(name: str) -> int:
        return sum(getattr(verdict, name) for verdict in judged)

    def middle(name: str) -> float:
        return float(median([getattr(verdict, name) for verdict in judged] or [0.0]))

    return Row(
        operation=first.operation,
        strategy=first.strategy,
        table=first.table,
        runs=len(verdicts),
        broke=total("broke"),
        as_the_table_says=sum(verdict.exit is Exit.AS_THE_TABLE_SAYS for verdict in verdicts),
        lost=total("lost"),
        of=total("of"),
        undone=total("undone"),
        edits=total("edits"),
        errors=sum(sum(verdict.errors.values()) for verdict in judged),
        per_second=middle("per_second"),
        p50=middle("p50"),
        p99=middle("p99"),
    )


def rows(verdicts: list[Verdict]) -> dict[str, list[Row]]:
    """Return the rows by operation, in the order of the strategies' tables."""
    found: dict[str, list[Row]] = {}
    for operation, strategies in ORDER.items():
        for strategy in strategies:
            of_one = [v for v in verdicts if (v.operation, v.strategy) == (operation, strategy)]
            if of_one:
                found.setdefault(operation, []).append(row(of_one))
    return found


def cells(row: Row) -> list[str]:
    """Return what the tables show of a row."""
    lost = f"{row.lost:,} of {row.of:,}"
    if row.lost:
        lost += f" ({result.percent(row.share)})"
    line = [row.strategy, row.mark, lost]
    if row.operation == "resolving":
        line.append(f"{row.undone:,} of {row.edits:,}")
    line += [f"{row.errors:,}", f"{row.per_second:,.0f}", f"{row.p50:.0f} ms", f"{row.p99:.0f} ms"]
    return [*line, f"{row.broke} of {row.runs}"]


def headings(operation: str) -> list[str]:
    """Return the headings of those cells."""
    lost = {"resolving": ["hits lost", "edits undone"], "creating": ["creates lost"]}[operation]
    return [TITLES[operation], "", *lost, "errors", "per second", "p50", "p99", "broke"]


def plain(found: dict[str, list[Row]]) -> str:
    """Return the tables for a terminal."""
    blocks = []
    for operation, of_operation in found.items():
        lines = [headings(operation), *(cells(row) for row in of_operation)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        blocks.append(
            "\n".join(
                "  ".join(
                    cell.ljust(width) if place < 2 else cell.rjust(width)
                    for place, (cell, width) in enumerate(zip(line, widths, strict=True))
                ).rstrip()
                for line in lines
            )
        )
    return "\n\n".join(blocks)


def markdown(found: dict[str, list[Row]], about: dict[str, Any]) -> str:
    """Return the tables as Markdown, with the date and the command that made them."""
    lines = []
    for operation, of_operation in found.items():
        titles = headings(operation)
        lines += ["| " + " | ".join(titles) + " |"]
        lines += ["| --- | --- |" + " ---: |" * (len(titles) - 2)]
        for row in of_operation:
            name, *rest = cells(row)
            lines.append(f"| `{name}` | " + " | ".join(rest) + " |")
        lines.append("")
    return "\n".join([*lines, f"`{about['command']}`, {summary(about)}."])


def summary(about: dict[str, Any]) -> str:
    """Return in one line when, how and on what the runs were made."""
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    return (
        f"{about['date']}: {about['users']} users for {about['seconds']} s each, "
        f"on {about['machine']}; {versions}"
    )


def machine() -> str:
    """Return what this machine is, as far as the system tells."""
    try:
        told = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        told = None
    name = told[1].strip() if told else platform.processor() or platform.machine()
    return f"{os.cpu_count()} × {name}, {platform.system()} {platform.release()}"


def today() -> str:
    """Return the date of the report."""
    return datetime.now(UTC).strftime("%Y-%m-%d")
