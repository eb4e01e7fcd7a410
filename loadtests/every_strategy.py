"""Every strategy under the same load, one after the other in random order, and one report.

    make races
    .venv/bin/python -m loadtests.every_strategy --only naive update_returning --repeat 10

Without --host it starts the service itself, with gunicorn, on a free port. It prints a table, and
the same as Markdown, and writes reports/races.json and reports/races.html. The exit code is 0 when
every strategy did what its table says, 1 when one did not, 2 when a run could not be judged.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from loadtests.harness import options, report, result
from loadtests.harness.lab_api import Lab, LabError
from loadtests.harness.page import page
from loadtests.harness.serving import ROOT, NotServed, serving
from loadtests.harness.verdict import Exit, Verdict

SECONDS = 6
GRACE = 90  # seconds beyond its time until a run that does not end is ended


class Run(NamedTuple):
    """A script with a strategy."""

    script: str
    strategy: str


RUNS = [
    *(Run("toctou", strategy) for strategy in options.CREATING),
    *(Run("lost_update", strategy) for strategy in options.RESOLVING),
]


class Stopped(Exception):
    """Somebody stopped all this."""


def main() -> int:
    """Run everything, print and write the report; return the exit code."""
    asked = arguments()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        with service(asked.host) as host:
            return measure(host, asked)
    except (LabError, NotServed, OSError) as error:
        print(f"races: {error}", file=sys.stderr)
    except Stopped:
        print("races: stopped", file=sys.stderr)
    return Exit.NOT_JUDGED


def stop(*_: Any) -> None:
    """Leave by way of all the clean-ups."""
    raise Stopped


def arguments() -> argparse.Namespace:
    """Return what the command line asks for; exit with 2 for what cannot be."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--host", help="a service that runs; without it, one is started")
    names = sorted({run.strategy for run in RUNS})
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="STRATEGY", help="these; without it, all"
    )
    parser.add_argument("--seconds", type=positive, default=SECONDS, help="for each run")
    parser.add_argument("--users", type=positive, default=options.USERS)
    parser.add_argument("--repeat", type=positive, default=1, help="how often to do it all")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the order")  # noqa: S311
    parser.add_argument("--reports", type=Path, default=Path(options.REPORTS))
    return parser.parse_args()


def positive(text: str) -> int:
    """Return the whole number from 1 up that `text` is; raise ArgumentTypeError otherwise."""
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to 10000")
    return int(text)


@contextmanager
def service(host: str | None) -> Iterator[str]:
    """Yield the address of the service: the one given, or one started for the block."""
    if host:
        yield host
        return
    print("Starting the service …", flush=True)
    with serving() as started:
        yield started.url


def measure(host: str, asked: argparse.Namespace) -> int:
    """Run what was asked for against `host`, and report."""
    lab = Lab(host)
    asked.reports.mkdir(parents=True, exist_ok=True)  # or find out after all the runs
    opened = lab.open_space(1)  # is there a service, with its lab on?
    lab.close_space(opened["space"])
    runs = [run for run in RUNS if not asked.only or run.strategy in asked.only] * asked.repeat
    random.Random(asked.seed).shuffle(runs)  # noqa: S311
    print(f"{len(runs)} runs of {asked.seconds} s at {host}, in the order of seed {asked.seed}.")
    began, load = time.monotonic(), os.getloadavg()[0]
    verdicts = []
    for number, run in enumerate(runs, 1):
        head = f"[{number:>{len(str(len(runs)))}}/{len(runs)}] {run.script} {run.strategy}"
        print(f"{head:<44}", end=" ", flush=True)
        verdict = one(run, host, asked)
        verdicts.append(verdict)
        print(line(verdict), flush=True)
    about = {
        "command": "make races" if len(sys.argv) == 1 else f"races {' '.join(sys.argv[1:])}",
        "date": report.today(),
        "users": asked.users,
        "seconds": asked.seconds,
        "seed": asked.seed,
        "took": round(time.monotonic() - began),
        "machine": f"{report.machine()}, with a load average of {load:.1f} before",
        "versions": opened["versions"],
        "notes": notes(verdicts),
    }
    return tell(verdicts, about, asked.reports)


def one(run: Run, host: str, asked: argparse.Namespace) -> Verdict:
    """Return the verdict of one run, in a Locust of its own."""
    with tempfile.TemporaryDirectory() as directory:
        # fmt: off
        command = [
            sys.executable, "-m", "locust", "-f", f"loadtests/{run.script}.py", "--headless",
            "--only-summary", "--loglevel", "ERROR", "--host", host, "--strategy", run.strategy,
            "--users", str(asked.users), "--spawn-rate", str(asked.users),
            "--run-time", f"{asked.seconds}s", "--reports", directory,
        ]
        # fmt: on
        # A session of its own: Ctrl-C reaches this process alone, which then ends the others in
        # turn, so that the run can still remove its key space from a service that is up.
        with subprocess.Popen(  # noqa: S603 - nothing in it comes from outside
            command,
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                _, errors = process.communicate(timeout=asked.seconds + GRACE)
            except BaseException as error:
                end(process)
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                errors = f"it did not end within {asked.seconds + GRACE} s"
        path = Path(directory) / f"{run.script}-{run.strategy}.json"
        if path.exists():
            return result.from_data(json.loads(path.read_text()))
    operation = "creating" if run.script == "toctou" else "resolving"
    reason = (errors.strip().splitlines() or ["it ended without a word"])[-1]
    return Verdict(run.script, run.strategy, operation, "unknown", reason=reason)


def end(process: "subprocess.Popen[str]") -> None:
    """Let a run finish its requests and remove its key space; kill it when it does not."""
    process.terminate()
    try:
        process.communicate(timeout=options.STOP_TIMEOUT * 6)
    except subprocess.TimeoutExpired:
        process.kill()


def line(verdict: Verdict) -> str:
    """Return what came of a run, in a line."""
    lost = f"{verdict.lost:,} lost"
    if verdict.undone:
        lost += f", {verdict.undone} edits undone"
    return f"{verdict.per_second:>7,.0f}/s  {lost:<32} {result.sentence(verdict)}"


def notes(verdicts: list[Verdict]) -> list[str]:
    """Return what a reader of the figures has to know."""
    found = []
    cpu = max(verdict.cpu for verdict in verdicts)
    if busy := sorted({verdict.strategy for verdict in verdicts if verdict.busy}):
        found.append(
            f"The load generator was the bottleneck (up to {cpu:.0%} of a core) for "
            f"{', '.join(busy)}: their throughput is what it could ask for."
        )
    else:
        found.append(f"The load generator was not the bottleneck: at most {cpu:.0%} of a core.")
    found += [
        f"{verdict.script} {verdict.strategy}: {result.sentence(verdict)}."
        for verdict in verdicts
        if verdict.exit is not Exit.AS_THE_TABLE_SAYS
    ]
    return list(dict.fromkeys(found))


def tell(verdicts: list[Verdict], about: dict[str, Any], directory: Path) -> int:
    """Print and write the report, and return the exit code."""
    found = report.rows(verdicts)
    print(f"\n{report.plain(found)}\n")
    for note in about["notes"]:
        print(note)
    data = {**about, "runs": [result.as_data(verdict) for verdict in verdicts]}
    (directory / "races.json").write_text(json.dumps(data, indent=2) + "\n")
    (directory / "races.html").write_text(page(verdicts, about))
    (directory / "races.md").write_text(report.markdown(found, about) + "\n")
    print(f"\n{report.summary(about)}.")
    print(f"In all {about['took']} s. Written to {directory}/: races.html, races.json, races.md.")
    codes = {verdict.exit for verdict in verdicts}
    bad = (Exit.OTHERWISE, Exit.NOT_JUDGED)
    return next((code for code in bad if code in codes), Exit.AS_THE_TABLE_SAYS)


if __name__ == "__main__":
    sys.exit(main())
