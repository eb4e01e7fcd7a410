"""Every strategy under the same load, one after another in random order, and a table of all.

    make races
    .venv/bin/python -m loadtests.races --only naive update_returning

It starts the service itself. It writes reports/races.md and races.json. The exit code is 0 when
every strategy behaved as its verdict says, 1 when one did not, 2 when a run was inconclusive.
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

SCRIPTS = {  # the operation of each
    "toctou": "creating",
    "lost_update": "resolving",
    "last_use": "resolving",
    "same_target": "reusing",
    "repeated_request": "idempotency",
    "last_link": "spending",
    "same_hour": "recording_visits",
}
AS_SERVED = {"lost_update", "last_use", "same_hour"}  # also run the service's own /KEY
CRASHES = {"in_memory", "second_transaction"}  # wrong if a process is killed: workers are
EDITS = ("lost_update", "f_expression_full_save")  # wrong only beside an edit, which is not made
USERS, KILL_INTERVAL = 16, 0.2  # seconds
MARKS = {"right": "✅ right", "wrong": "⛔ wrong"}
COLUMNS = ["script", "strategy", "", "lost or failed", "failed", "per second", "p99", "as expected"]
REPORTS = ROOT / "reports"
Run = dict[str, Any]


def main() -> int:
    """Run the chosen strategies, write the report, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these scripts or strategies")
    parser.add_argument("--seconds", type=int, default=6, help="duration of each run")
    options = parser.parse_args()
    REPORTS.mkdir(exist_ok=True)
    with serving(**NO_REFUSALS) as service:
        planned, runs = plan_runs(service, options.only), list[Run]()
        for run in random.sample(planned, len(planned)):
            runs.append(run)
            run |= measure(run, service, options.seconds)
            progress = f"[{len(runs)}/{len(planned)}] {run['script']} {run['strategy']}"
            print(f"{progress:<48} {run['outcome']}", flush=True)
            write(runs, left=len(planned) - len(runs), seconds=options.seconds, users=USERS)
    print(f"\n{table(planned)}")
    if not all(run["as_expected"] for run in planned):
        return 1
    return 2 if any(run["exit_code"] == 2 for run in planned) else 0


def plan_runs(service: RunningService, only: list[str] | None) -> list[Run]:
    """Return the runs: the script, the strategy, and the verdict in the service's own table."""
    no_proxy = build_opener(ProxyHandler({}))
    with no_proxy.open(f"{service.url}/lab/load/lab-races", timeout=60) as response:
        verdicts = json.load(response)["strategies"]
    return [
        {"script": script, "strategy": strategy, "verdict": verdict}
        for script, operation in SCRIPTS.items()
        for strategy, verdict in {"service": "right", **verdicts[operation]}.items()
        if strategy != "service" or script in AS_SERVED
        if not only or {script, strategy} & {*only}
    ]


def measure(run: Run, service: RunningService, seconds: int) -> Run:
    """Run a script by a strategy in a Locust process; return its result."""
    script, strategy = run["script"], run["strategy"]
    file, log = REPORTS / f"{script}-{strategy}.json", REPORTS / f"{script}-{strategy}.txt"
    locust = (
        f"locust -f loadtests/{script}.py --headless --only-summary --host {service.url} "
        f"--users {USERS} --spawn-rate {USERS} --run-time {seconds}s "
        f"--strategy {strategy} --ledger-file {file.relative_to(ROOT)}"
    )
    command = [sys.executable, "-m", *locust.split()]
    file.unlink(missing_ok=True)
    with (
        log.open("w") as output,
        subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output) as process,  # noqa: S603
    ):
        while strategy in CRASHES and process.poll() is None:
            time.sleep(KILL_INTERVAL)
            if "All users spawned" in log.read_text():
                random.choice(service.workers).kill()  # noqa: S311
    result: Run = json.loads(file.read_text())
    is_violated = result["exit_code"] == 1
    if run["verdict"] == "wrong":
        as_expected = is_violated or (script, strategy) == EDITS
    else:  # what is safe only for links without a limit may break one
        as_expected = not is_violated or (script == "last_use" and run["verdict"] != "right")
    return {**result, "share": result["lost"] / max(1, result["of"]), "as_expected": as_expected}


def table(runs: list[Run]) -> str:
    """Return the runs as a table in Markdown."""
    rows = []
    for run in runs:
        names = [run["script"], run["strategy"], MARKS.get(run["verdict"], run["verdict"])]
        lost = [f"{run['lost']:,} of {run['of']:,} ({run['share']:.1%})", f"{run['failed']:,}"]
        speed = [f"{run['per_second']:,.0f}", f"{run['p99']:.0f} ms"]
        rows.append([*names, *lost, *speed, "yes" if run["as_expected"] else "NO"])
    return tabulate(rows, COLUMNS, "pipe", disable_numparse=True)


def write(runs: list[Run], **about: Any) -> None:
    """Write the report so far, which the lab shows."""
    about |= {"command": "make races", "date": f"{datetime.now(UTC):%Y-%m-%d}", "runs": runs}
    (REPORTS / "races.json").write_text(json.dumps(about, indent=2))
    (REPORTS / "races.md").write_text(f"{table(runs)}\n")


if __name__ == "__main__":
    sys.exit(main())
