"""All strategies side by side: a table of each operation, for the terminal and as Markdown."""

import json
import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from tabulate import tabulate

from loadtests.harness import reports
from loadtests.harness.measured_operations import KILLS, OPERATIONS
from loadtests.harness.result import ExitCode, LoadResult

MARKS = {"right": "✅", "wrong": "⛔"}  # ⚠️ for all others


def cells(results: list[LoadResult]) -> list[str]:
    """Return a row of the table for one or more runs of a strategy.

    Counts are sums, and throughput and times are medians, of the conclusive runs.
    """
    first = results[0]
    conclusive = [each for each in results if not each.reason]

    def total(name: str) -> int:
        return sum(getattr(each, name) for each in conclusive)

    def middle(name: str) -> float:
        return float(median([getattr(each, name) for each in conclusive] or [0]))

    lost = f"{total('lost'):,} of {total('of'):,}"
    if total("lost"):
        lost += f" ({reports.percent(total('lost') / max(1, total('of')))})"
    undone = f"{total('undone'):,} of {total('edits'):,}"
    edits = [undone] if first.operation == "resolving" else []
    errors = sum(sum(each.errors.values()) for each in conclusive)
    speed = [f"{middle('per_second'):,.0f}", f"{middle('p50'):.0f} ms", f"{middle('p99'):.0f} ms"]
    mark = f"{MARKS.get(first.verdict, '⚠️')} {first.verdict}"
    violated = f"{total('violated')} of {len(results)}"
    return [mark, lost, *edits, f"{errors:,}", *speed, violated]


def tables(results: Iterable[LoadResult], style: str) -> str:
    """Return a table of each operation, in one of tabulate's styles.

    The strategies have the order of the service's tables.
    """
    runs: dict[tuple[str, str], list[LoadResult]] = {}
    for each in results:
        runs.setdefault((each.operation, each.strategy), []).append(each)
    code = "`" if style == "pipe" else ""
    made = []
    for operation, one in OPERATIONS.items():
        rows = [
            [f"{code}{name}{code}", *cells(runs[operation, name])]
            for name in one.strategies
            if (operation, name) in runs
        ]
        if rows:
            edits = ["edits undone"] if operation == "resolving" else []
            titles = [one.title, "", one.lost, *edits]
            titles += ["errors", "per second", "p50", "p99", "violated"]
            alignment = ["left", "left", *["right"] * (len(titles) - 2)]
            made.append(tabulate(rows, titles, style, colalign=alignment, disable_numparse=True))
    return "\n\n".join(made)


def conditions(about: dict[str, Any]) -> str:
    """Return the date, parameters, machine and versions of the runs in one line."""
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    return (
        f"{about['date']}: {about['users']} users for {about['seconds']} s each, "
        f"on {about['machine']}; {versions}"
    )


def line(result: LoadResult) -> str:
    """Return the result of a run as one line."""
    lost = "" if result.reason else f"{result.lost:,} lost"
    if result.undone:
        lost += f", {result.undone} edits undone"
    return f"{result.per_second:>7,.0f}/s  {lost:<32} {reports.sentence(result)}"


def notes(results: list[LoadResult]) -> list[str]:
    """Return notes that a reader of the figures needs."""
    cpu = max(result.cpu for result in results)
    found = [f"The load generator was not the bottleneck: at most {cpu:.0%} of a core."]
    if busy := sorted({result.strategy for result in results if result.busy}):
        names = ", ".join(busy)
        found = [
            f"The load generator was the bottleneck (up to {cpu:.0%} of a core) for {names}: the "
            "service may do more."
        ]
    for result in results:
        if kills := KILLS.get(result.strategy):
            found.append(f"{result.strategy}: workers killed (kill -9) during the run: {kills}.")
        if result.exit_code is not ExitCode.AS_EXPECTED:
            found.append(f"{result.script} {result.strategy}: {reports.sentence(result)}.")
    return list(dict.fromkeys(found))


def write(results: list[LoadResult], about: dict[str, Any], directory: Path) -> None:
    """Write the report so far. The lab, which shows it, reads either the old or the new one."""
    data = {**about, "runs": [reports.as_data(result) for result in results]}
    table = f"{tables(results, 'pipe')}\n\n`{about['command']}`, {conditions(about)}.\n"
    draft = directory / "races.json.new"
    draft.write_text(json.dumps(data, indent=2) + "\n")
    draft.replace(directory / "races.json")
    (directory / "races.md").write_text(table)


def tell(results: list[LoadResult], about: dict[str, Any], directory: Path) -> None:
    print("", tables(results, "plain"), *about["notes"], sep="\n")
    print(f"\n{conditions(about)}.")
    print(f"In all {about['took']} s. Written to {directory}/: races.md, races.json, and each run.")


def machine_and_load() -> str:
    """Return the machine and its load average; call it before the load begins."""
    return f"{machine()}, with a load average of {os.getloadavg()[0]:.1f} before"


def machine() -> str:
    """Return the processors and the operating system of this machine."""
    try:
        info = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        info = None
    name = info[1].strip() if info else platform.processor() or platform.machine()
    return f"{os.cpu_count()} × {name}, {platform.system()} {platform.release()}"
