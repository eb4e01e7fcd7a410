"""Every strategy under the same load, one after another in random order, and a table of all.

    make races
    .venv/bin/python -m loadtests.races --only naive update_returning

The results are also in reports/races.json. The exit code is 0 when every strategy behaved as its
verdict says, 1 when one did not, 2 when a run was inconclusive.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any
from urllib.request import ProxyHandler, build_opener

from tabulate import tabulate

from loadtests.servers import NO_REFUSALS, ROOT, RunningService, serving

SCRIPTS = {  # with the operation of each script
    "toctou": "creating",
    "lost_update": "resolving",
    "last_use": "resolving",
    "same_target": "reusing",
    "repeated_request": "idempotency",
    "last_link": "spending",
    "same_hour": "recording_visits",
}
SERVED = {"resolving", "recording_visits"}  # what the service's own /KEY does, too
WRONG_IN_A_CRASH = {"in_memory", "second_transaction"}  # workers are killed
WRONG_BESIDE_AN_EDIT = ("lost_update", "f_expression_full_save")  # the load makes no edit
USERS = 16
KILL_INTERVAL = 0.2  # seconds
MIN_CRASH_SECONDS = 4  # of load: a kill hits the moment between two transactions only by chance
MARKS = {"right": "✅ right", "wrong": "⛔ wrong"}
COLUMNS = ["script", "strategy", "", "lost or failed", "failed", "per second", "p99", "as expected"]
REPORTS = ROOT / "reports"
REPORT = REPORTS / "races.json"  # so far, which the lab shows
Run = dict[str, Any]


def main() -> int:
    """Start the service, run the chosen strategies, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these scripts or strategies")
    parser.add_argument("--seconds", type=int, default=6, help="duration of each run")
    options = parser.parse_args()
    REPORTS.mkdir(exist_ok=True)
    with serving(**NO_REFUSALS) as service:
        planned = plan_runs(service, options.only)
        for run in random.sample(planned, len(planned)):
            run.update(measure(run, service, options.seconds))
            finished = [run for run in planned if "outcome" in run]
            left = len(planned) - len(finished)
            print(f"{left:>2} to come; {run['script']} {run['strategy']}: {run['outcome']}")
            about = {"left": left, "seconds": options.seconds, "users": USERS, "runs": finished}
            today = f"{datetime.now(UTC):%Y-%m-%d}"
            REPORT.write_text(json.dumps({"command": "make races", "date": today, **about}))
    print(f"\n{format_table(planned)}")
    if not all(run["as_expected"] for run in planned):
        return 1
    return 2 if any(run["exit_code"] == 2 for run in planned) else 0


def plan_runs(service: RunningService, only: list[str] | None) -> list[Run]:
    """Return a run for each script and strategy, with the verdict that the lab's table expects.

    For some scripts the service's own redirect is run, too, under the name `service`. An unknown
    name in `only` ends the program.
    """
    opener = build_opener(ProxyHandler({}))  # without a proxy of the environment
    verdicts = json.load(opener.open(f"{service.url}/lab/load/lab-races"))["strategies"]
    runs: list[Run] = []
    for script, operation in SCRIPTS.items():
        if operation in SERVED:
            runs.append({"script": script, "strategy": "service", "verdict": "right"})
        for strategy, verdict in verdicts[operation].items():
            runs.append({"script": script, "strategy": strategy, "verdict": verdict})
    known = {run[field]: None for field in ("script", "strategy") for run in runs}
    if unknown := [name for name in only or () if name not in known]:
        sys.exit(f"There is no script or strategy {unknown[0]!r}; there are {', '.join(known)}.")
    return [run for run in runs if not only or {run["script"], run["strategy"]} & {*only}]


def measure(run: Run, service: RunningService, seconds: int) -> Run:
    """Run a script with a strategy in a Locust process; return the result of its ledger."""
    script = run["script"]
    strategy = run["strategy"]
    file = REPORTS / f"{script}-{strategy}.json"
    log = file.with_suffix(".txt")
    if strategy in WRONG_IN_A_CRASH:
        seconds = max(seconds, MIN_CRASH_SECONDS)
    locust = (
        f"locust -f loadtests/{script}.py --headless --only-summary --host {service.url} "
        f"--users {USERS} --spawn-rate {USERS} --run-time {seconds}s "
        f"--strategy {strategy}"
    )
    command = [sys.executable, "-m", *locust.split(), "--ledger-file", str(file)]
    file.unlink(missing_ok=True)
    with (
        log.open("w") as output,
        subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output) as process,  # noqa: S603
    ):
        while strategy in WRONG_IN_A_CRASH and process.poll() is None:
            time.sleep(KILL_INTERVAL)
            if "All users spawned" in log.read_text():
                random.choice(service.workers).kill()  # noqa: S311
    result: Run = json.loads(file.read_text())
    share = result["lost"] / max(1, result["of"])
    return {**result, "share": share, "as_expected": is_expected(run, result["exit_code"])}


def is_expected(run: Run, exit_code: int) -> bool:
    """Return whether a run ended as its strategy's verdict says."""
    if (run["script"], run["strategy"]) == WRONG_BESIDE_AN_EDIT:
        return True
    if run["script"] == "last_use" and run["verdict"] not in MARKS:  # only "right without a limit"
        return True
    expected = {1} if run["verdict"] == "wrong" else {0, 2}  # 2 is inconclusive
    return exit_code in expected


def format_table(runs: list[Run]) -> str:
    """Return the runs as a table in Markdown."""
    rows = []
    for run in runs:
        names = [run["script"], run["strategy"], MARKS.get(run["verdict"], run["verdict"])]
        lost = [f"{run['lost']:,} of {run['of']:,} ({run['share']:.1%})", f"{run['failed']:,}"]
        speed = [f"{run['per_second']:,.0f}", f"{run['p99']:.0f} ms"]
        rows.append([*names, *lost, *speed, "yes" if run["as_expected"] else "NO"])
    return tabulate(rows, COLUMNS, "pipe", disable_numparse=True)


if __name__ == "__main__":
    sys.exit(main())
