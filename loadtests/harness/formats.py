"""A result as people and programs read it: a table for the terminal, JSON and CSV."""

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from loadtests.harness.measured_operations import OPERATIONS
from loadtests.harness.reconciliation import VISITS, ExitCode, LoadResult


def percent(share: float) -> str:
    """Return a share as a percentage, with as many digits as it takes to tell it from zero."""
    return f"{share:.1%}" if share == 0 or share >= 0.001 else f"{share:.3%}"


def sentence(result: LoadResult) -> str:
    """Return the result in one sentence."""
    if result.exit_code is ExitCode.INCONCLUSIVE:
        return f"inconclusive: {result.reason}"
    expected = result.exit_code is ExitCode.AS_EXPECTED
    # A wrong strategy whose requests failed, and harmed nothing, has not shown its race.
    violated = expected == result.wrong
    outcome = "the invariant was violated" if violated else "the invariant held"
    verdict, *_ = result.verdict.split(",")  # right alone: no caller's transaction is involved
    return f"{verdict}, {'and' if expected else 'BUT'} {outcome}"


def rows(result: LoadResult) -> list[tuple[str, str]]:
    """Return the table, as names and values."""
    table = [
        ("requests", f"{result.requests:,}"),
        ("acknowledged", f"{result.acknowledged:,}"),
        ("unknown outcome", f"{result.unknown:,}"),
    ]
    if not result.reason:
        table += harm(result)
    table += [("errors", f"{count:,} × {kind}") for kind, count in result.errors.items()]
    rate = f"{result.per_second:,.0f} in {result.seconds:.1f} s"
    times = f"{result.p50:.1f} / {result.p95:.1f} / {result.p99:.1f} ms"
    table += [(f"{OPERATIONS[result.operation].unit} per second", rate), ("p50 / p95 / p99", times)]
    if result.cpu:
        table.append(("load generator's CPU", f"{result.cpu:.0%} of a core"))
    return table


def harm(result: LoadResult) -> list[tuple[str, str]]:
    """Return the rows about what was lost, counted twice and undone."""
    lost = f"{result.lost:,} of {result.of:,}"
    if result.of:
        interval = f"95 % interval {percent(result.low)} to {percent(result.high)}"
        lost += f" = {percent(result.share)} ({interval})"
    table = [(OPERATIONS[result.operation].lost, lost)]
    if result.operation in ("creating", "last_use"):
        table.append(("… that failed", f"{result.failed:,}"))
    if result.operation in VISITS:
        table += [
            ("… lost", f"{result.missing + result.lost_hits:,}"),
            ("… too many", f"{result.extra:,}"),
        ]
    elif result.operation not in ("resolving", "last_use"):
        table += [
            ("… with another's key", f"{result.stolen:,}"),
            ("… not in the database", f"{result.missing:,}"),
        ]
    table.append((OPERATIONS[result.operation].doubled, f"{result.doubled:,}"))
    if result.edits:
        table.append(("edits undone", f"{result.undone:,} of {result.edits:,}"))
    return table


def text(result: LoadResult) -> str:
    """Return what is printed at the end of a run."""
    lines = [f"{result.script} {result.strategy}: {sentence(result)}", ""]
    lines += [f"  {name:<24} {value}" for name, value in rows(result)]
    for case, *requests in result.proofs:
        lines += ["", f"  {case}", *(f"    {request}" for request in requests)]
    if result.busy:
        lines += ["", "  The load generator was saturated: try more --processes."]
    return "\n".join(lines)


def as_data(result: LoadResult) -> dict[str, Any]:
    """Return the result as JSON has it, conclusions included."""
    return {
        **asdict(result),
        "violated": result.violated,
        "generator_busy": result.busy,
        "exit_code": int(result.exit_code),
        "sentence": sentence(result),
    }


def from_data(data: dict[str, Any]) -> LoadResult:
    """Return the result that as_data() made `data` of."""
    return LoadResult(**{name: data[name] for name in LoadResult.__dataclass_fields__})


def json_path(directory: Path, script: str, strategy: str) -> Path:
    """Return where write() puts the JSON of a run."""
    return directory / f"{script}-{strategy}.json"


def read(directory: Path, script: str, strategy: str) -> LoadResult:
    """Return the result that write() wrote; raise FileNotFoundError."""
    return from_data(json.loads(json_path(directory, script, strategy).read_text()))


def write(result: LoadResult, directory: Path) -> Path:
    """Write SCRIPT-STRATEGY.json and .csv in `directory`, and return the path of the first."""
    directory.mkdir(parents=True, exist_ok=True)
    path = json_path(directory, result.script, result.strategy)
    data = as_data(result)
    path.write_text(json.dumps(data, indent=2) + "\n")
    flat = {name: value for name, value in data.items() if not isinstance(value, (list, dict))}
    with path.with_suffix(".csv").open("w", newline="") as file:
        csv.writer(file).writerows([flat.keys(), flat.values()])
    return path
