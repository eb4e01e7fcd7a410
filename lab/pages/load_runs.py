"""The results of the last load test, each with the count of the same cell."""

import json
import time
from itertools import groupby
from typing import Any

from django.conf import settings

from lab.races import RACES
from lab.recordings.cells import find_cell
from lab.recordings.recording import read_counts
from lab.recordings.tables import CountedCell

REPORT = settings.BASE_DIR / "reports" / "races.json"
MAX_PAUSE_SECONDS = 120  # between two results of a command that is still running


def read_last_run() -> dict[str, Any] | None:
    """Return the last report of `make races`, or None without a readable one.

    `races` lists each race with its rows, which begin with the largest loss. `is_running` says
    whether the command still runs.
    """
    try:
        report = json.loads(REPORT.read_text())
        runs = [run for run in report["runs"] if run["script"] in RACES]
        runs.sort(key=lambda run: (run["script"], -run["share"], run["strategy"]))
        races = [
            (RACES[script], [_make_row(run) for run in group])
            for script, group in groupby(runs, key=lambda run: run["script"])
        ]
        fastest = max((run["per_second"] for run in runs), default=1)
        is_recent = time.time() - REPORT.stat().st_mtime < MAX_PAUSE_SECONDS
        is_running = report["left"] > 0 and is_recent
        return {**report, "races": races, "fastest": fastest, "is_running": is_running}
    except (OSError, ValueError, KeyError, TypeError):  # no report, or one of another version
        return None


def _make_row(run: dict[str, Any]) -> dict[str, Any]:
    """Return a run with a text of its `loss`, and with the `cell` of its race and strategy.

    The service's own redirect, which is measured beside the strategies, has no cell.
    """
    share = f" ({run['share']:.1%})" if run["lost"] else ""
    row = {**run, "loss": f"{run['lost']:,} of {run['of']:,}{share}"}
    race = RACES[run["script"]]
    if run["strategy"] in race.strategies:
        cell = find_cell(race.name, run["strategy"])
        row["cell"] = CountedCell(cell, read_counts(race).get(cell.key))
    return row
