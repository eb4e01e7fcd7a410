"""All strategies side by side: as data, as a table for the terminal, and as Markdown."""

import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tabulate import tabulate

from loadtests.harness import formats
from loadtests.harness.measured_operations import OPERATIONS
from loadtests.harness.reconciliation import ExitCode, LoadResult

MARKS = {
    "wrong": "⛔ wrong",
    "right": "✅ right",
    "right without a condition": "⚠️ right without a condition",
}


@dataclass(frozen=True)
class StrategySummary:
    """All runs of one strategy. Throughput and times are their medians."""

    operation: str
    strategy: str
    verdict: str
    runs: int
    violated: int
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
        """The verdict of the strategies' table, as the README writes it."""
        return MARKS.get(self.verdict, "⚠️ right alone")

    @property
    def cells(self) -> list[str]:
        """What the tables show, under headings()."""
        lost = f"{self.lost:,} of {self.of:,}"
        if self.lost:
            lost += f" ({formats.percent(self.share)})"
        undone = [f"{self.undone:,} of {self.edits:,}"] if self.operation == "resolving" else []
        speed = [f"{self.per_second:,.0f}", f"{self.p50:.0f} ms", f"{self.p99:.0f} ms"]
        violated = f"{self.violated} of {self.runs}"
        return [self.strategy, self.mark, lost, *undone, f"{self.errors:,}", *speed, violated]


def summarize(results: list[LoadResult]) -> StrategySummary:
    """Return the summary of one strategy's runs, of which there is at least one."""
    conclusive = [each for each in results if each.exit_code is not ExitCode.INCONCLUSIVE]

    def values(name: str) -> list[Any]:
        return [getattr(each, name) for each in conclusive]

    sums = ("violated", "lost", "of", "undone", "edits")
    medians = ("per_second", "p50", "p99")
    return StrategySummary(
        operation=results[0].operation,
        strategy=results[0].strategy,
        verdict=results[0].verdict,
        runs=len(results),
        errors=sum(sum(errors.values()) for errors in values("errors")),
        **{name: sum(values(name)) for name in sums},
        **{name: median(values(name) or [0.0]) for name in medians},
    )


def compare(results: Iterable[LoadResult]) -> dict[str, list[StrategySummary]]:
    """Return the summaries by operation, in the order of the strategies' tables."""
    runs: dict[tuple[str, str], list[LoadResult]] = {}
    for each in results:
        runs.setdefault((each.operation, each.strategy), []).append(each)
    found = {
        operation: [
            summarize(runs[operation, name]) for name in one.strategies if (operation, name) in runs
        ]
        for operation, one in OPERATIONS.items()
    }
    return {operation: summaries for operation, summaries in found.items() if summaries}


def headings(operation: str) -> list[str]:
    """Return the headings of StrategySummary.cells."""
    undone = ["edits undone"] if operation == "resolving" else []
    speed = ["per second", "p50", "p99"]
    return [
        OPERATIONS[operation].title, "", OPERATIONS[operation].lost, *undone,
        "errors", *speed, "violated",
    ]  # fmt: skip


def plain(found: dict[str, list[StrategySummary]]) -> str:
    """Return the tables for a terminal."""
    return "\n\n".join(table(operation, rows, "plain") for operation, rows in found.items())


def markdown(found: dict[str, list[StrategySummary]], about: dict[str, Any]) -> str:
    """Return the tables as Markdown, with the date and the command that made them."""
    tables = [table(operation, rows, "pipe") for operation, rows in found.items()]
    return "\n\n".join([*tables, f"`{about['command']}`, {conditions(about)}."])


def table(operation: str, summaries: list[StrategySummary], style: str) -> str:
    """Return a table in one of tabulate's styles."""
    code = "`" if style == "pipe" else ""
    cells = [[f"{code}{each.strategy}{code}", *each.cells[1:]] for each in summaries]
    titles = headings(operation)
    alignment = ["left", "left", *["right"] * (len(titles) - 2)]
    return tabulate(cells, titles, style, colalign=alignment, disable_numparse=True)


def conditions(about: dict[str, Any]) -> str:
    """Return in one line when, how and on what the runs were made."""
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    return (
        f"{about['date']}: {about['users']} users for {about['seconds']} s each, "
        f"on {about['machine']}; {versions}"
    )


def machine_and_load() -> str:
    """Return the machine and how busy others keep it; to be called before the load."""
    return f"{machine()}, with a load average of {os.getloadavg()[0]:.1f} before"


def machine() -> str:
    """Return the processors and the operating system of this machine, as far as it says."""
    try:
        info = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        info = None
    name = info[1].strip() if info else platform.processor() or platform.machine()
    return f"{os.cpu_count()} × {name}, {platform.system()} {platform.release()}"
