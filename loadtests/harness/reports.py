"""The report of one run, as text and as JSON."""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from loadtests.harness.measured_operations import OPERATIONS
from loadtests.harness.reconciliation import VISITS
from loadtests.harness.result import ExitCode, LoadResult


def percent(share: float) -> str:
    """Return a share as a percentage, with more digits for a small one."""
    return f"{share:.1%}" if share == 0 or share >= 0.001 else f"{share:.3%}"


def sentence(result: LoadResult) -> str:
    """Return the verdict of the strategy's table, and whether the run agrees."""
    if result.reason:
        return f"inconclusive: {result.reason}"
    expected = result.exit_code is ExitCode.AS_EXPECTED
    # A wrong strategy whose requests only failed has not shown its race.
    violated = expected == result.wrong
    outcome = "the invariant was violated" if violated else "the invariant held"
    return f"{result.verdict}, {'and' if expected else 'BUT'} {outcome}"


def rows(result: LoadResult) -> list[tuple[str, str]]:
    """Return the table, as names and values."""
    table = [
        ("requests", f"{result.requests:,}"),
        ("acknowledged", f"{result.acknowledged:,}"),
        ("unknown outcome", f"{result.unknown:,}"),
    ]
    if result.of or not result.reason:
        table += harm(result)
    table += [("errors", f"{count:,} × {kind}") for kind, count in result.errors.items()]
    rate = f"{result.per_second:,.0f} in {result.seconds:.1f} s"
    times = f"{result.p50:.0f} / {result.p95:.0f} / {result.p99:.0f} ms"
    table += [(f"{OPERATIONS[result.operation].unit} per second", rate), ("p50 / p95 / p99", times)]
    if result.cpu:
        table.append(("load generator's CPU", f"{result.cpu:.0%} of a core"))
    return table


def harm(result: LoadResult) -> list[tuple[str, str]]:
    """Return the rows of lost, doubled and undone requests."""
    lost = f"{result.lost:,} of {result.of:,}"
    if result.of:
        interval = f"95 % interval {percent(result.low)} to {percent(result.high)}"
        lost += f" = {percent(result.share)} ({interval})"
    parts: dict[str, int] = {}
    if result.operation in ("creating", "last_use"):
        parts["… that failed"] = result.failed
    if result.operation in VISITS:
        parts |= {"… lost": result.missing + result.lost_hits, "… too many": result.extra}
    elif result.operation not in ("resolving", "last_use"):
        parts |= {"… with another's key": result.stolen, "… not in the database": result.missing}
    parts[OPERATIONS[result.operation].doubled] = result.doubled
    table = [(OPERATIONS[result.operation].lost, lost)]
    table += [(name, f"{count:,}") for name, count in parts.items()]
    if result.edits:
        table.append(("edits undone", f"{result.undone:,} of {result.edits:,}"))
    return table


def text(result: LoadResult) -> str:
    """Return the text printed at the end of a run."""
    lines = [f"{result.script} {result.strategy}: {sentence(result)}", ""]
    lines += [f"  {name:<24} {value}" for name, value in rows(result)]
    for case, *requests in result.proofs:
        lines += ["", f"  {case}", *(f"    {request}" for request in requests)]
    if result.busy:
        lines += ["", "  The load generator was saturated: try more --processes."]
    return "\n".join(lines)


def as_data(result: LoadResult) -> dict[str, Any]:
    """Return the result and its conclusions for JSON."""
    conclusions = {"exit_code": int(result.exit_code), "sentence": sentence(result)}
    return {**asdict(result), "violated": result.violated, **conclusions}


def path(directory: Path, script: str, strategy: str, suffix: str) -> Path:
    """Return the path of a report of a run: its ".json", its ".txt", or Locust's ".html"."""
    return directory / f"{script}-{strategy}{suffix}"


def read(directory: Path, script: str, strategy: str) -> LoadResult:
    """Return the result that write() wrote; raise FileNotFoundError."""
    data = json.loads(path(directory, script, strategy, ".json").read_text())
    return LoadResult(**{each.name: data[each.name] for each in fields(LoadResult)})


def write(result: LoadResult, directory: Path) -> None:
    """Write the result to SCRIPT-STRATEGY.json and .txt in `directory`; raise OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    contents = {".json": json.dumps(as_data(result), indent=2), ".txt": text(result)}
    for suffix, content in contents.items():
        path(directory, result.script, result.strategy, suffix).write_text(content + "\n")
