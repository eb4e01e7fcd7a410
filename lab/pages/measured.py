"""The results of the last load runs, each with the count of the same race."""

import json
import time
from typing import Any, NamedTuple

from django.conf import settings

from lab.pages.tables import Cell, Counted
from lab.races import RACES

REPORT = settings.BASE_DIR / "reports" / "races.json"
LONGEST = 120  # seconds between two results of a command that is still running


class MeasuredLoad(NamedTuple):
    """A load run, and the count of the same race."""

    run: dict[str, Any]
    cell: Cell

    @property
    def lost(self) -> str:
        share = f" ({self.run['share']:.1%})" if self.run["lost"] else ""
        return f"{self.run['lost']:,} of {self.run['of']:,}{share}"


def last_run(counted: Counted) -> dict[str, Any] | None:
    """Return the last report of `make races` with its `rows`, or None if there is none.

    `left` is the number of runs to come, and `live` says whether the command is still running.
    """
    try:
        report = json.loads(REPORT.read_text())
        rows = [
            MeasuredLoad(run, cell)
            for run in report["runs"]
            if run["script"] in RACES
            and (cell := counted.cell(RACES[run["script"]], run["strategy"]))
        ]
        rows.sort(key=lambda row: (row.run["operation"], -row.run["share"], row.run["strategy"]))
        fastest = max((row.run["per_second"] for row in rows), default=1)
        live = report["left"] > 0 and time.time() - REPORT.stat().st_mtime < LONGEST
        return {**report, "rows": rows, "fastest": fastest, "live": live}
    except (OSError, ValueError, KeyError, TypeError):  # no report, or one of another version
        return None
