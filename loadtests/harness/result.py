"""A verdict as people and programs read it: a table for the terminal, JSON and CSV."""

import csv
import json
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

from loadtests.harness.verdict import Exit, Verdict

UNITS = {"resolving": "redirects", "creating": "creates", "service": "requests"}
HARMED = {"resolving": "hits lost", "creating": "creates lost", "service": "requests lost"}

TWICE = {
    "resolving": "hits counted twice",
    "creating": "links made twice",
    "service": "counted or made twice",
}


def percent(share: float) -> str:
    """Return a share as a percentage, with as many digits as it takes to tell it from none."""
    return f"{share:.1%}" if share == 0 or share >= 0.001 else f"{share:.3%}"


def sentence(verdict: Verdict) -> str:
    """Return the outcome in one sentence."""
    if verdict.exit is Exit.NOT_JUDGED:
        return f"not judged: {verdict.reason}"
    as_said = verdict.exit is Exit.AS_THE_TABLE_SAYS
    outcome = "it broke" if as_said == verdict.wrong else "nothing broke"
    link = "and" if as_said else "BUT"
    table, *_ = verdict.table.split(",")  # right alone: its caller's transaction is not here
    return f"{table}, {link} {outcome}"


def rows(verdict: Verdict) -> list[tuple[str, str]]:
    """Return the table, as names and values."""
    lost = f"{verdict.lost:,} of {verdict.of:,}"
    if verdict.of:
        interval = f"95 % interval {percent(verdict.low)} to {percent(verdict.high)}"
        lost += f" = {percent(verdict.share)} ({interval})"
    table = [
        ("requests", f"{verdict.requests:,}"),
        ("acknowledged", f"{verdict.acknowledged:,}"),
        ("unknown outcome", f"{verdict.unknown:,}"),
        (HARMED[verdict.operation], lost),
    ]
    if verdict.operation == "creating":
        table.append(("… that failed", f"{verdict.failed:,}"))
    if verdict.operation != "resolving":
        table += [
            ("… that are another's", f"{verdict.stolen:,}"),
            ("… that are not there", f"{verdict.missing:,}"),
        ]
    table.append((TWICE[verdict.operation], f"{verdict.doubled:,}"))
    if verdict.edits:
        table.append(("edits undone", f"{verdict.undone:,} of {verdict.edits:,}"))
    for kind, count in verdict.errors.items():
        table.append(("errors", f"{count:,} × {kind}"))
    rate = f"{verdict.per_second:,.0f} in {verdict.seconds:.1f} s"
    times = f"{verdict.p50:.1f} / {verdict.p95:.1f} / {verdict.p99:.1f} ms"
    table += [
        (f"{UNITS[verdict.operation]} per second", rate),
        ("p50 / p95 / p99", times),
    ]
    if verdict.cpu:
        table.append(("load generator's CPU", f"{verdict.cpu:.0%} of a core"))
    return table


def text(verdict: Verdict) -> str:
    """Return what is printed at the end of a run."""
    lines = [f"{verdict.script} {verdict.strategy}: {sentence(verdict)}", ""]
    lines += [f"  {name:<24} {value}" for name, value in rows(verdict)]
    for case, *requests in verdict.proofs:
        lines += ["", f"  {case}", *(f"    {request}" for request in requests)]
    if verdict.busy:
        lines += [
            "",
            "  The load generator was busy: with more --processes the service may do more.",
        ]
    return "\n".join(lines)


def as_data(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict as JSON has it, conclusions included."""
    return {
        **asdict(verdict),
        "broke": verdict.broke,
        "generator_busy": verdict.busy,
        "exit_code": int(verdict.exit),
        "sentence": sentence(verdict),
    }


def from_data(data: dict[str, Any]) -> Verdict:
    """Return the verdict that as_data() made `data` of."""
    return Verdict(**{name: data[name] for name in Verdict.__dataclass_fields__})


def write(verdict: Verdict, directory: Path) -> Path:
    """Write SCRIPT-STRATEGY.json and .csv in `directory`, and return the path of the first."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{verdict.script}-{verdict.strategy}.json"
    data = as_data(verdict)
    path.write_text(json.dumps(data, indent=2) + "\n")
    flat = {name: value for name, value in data.items() if not isinstance(value, (list, dict))}
    table = StringIO()
    writer = csv.DictWriter(table, flat)
    writer.writeheader()
    writer.writerow(flat)
    path.with_suffix(".csv").write_text(table.getvalue())
    return path
