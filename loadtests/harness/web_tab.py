"""The live ledger as a tab of Locust's web UI, by Locust's own extension points.

https://docs.locust.io/en/stable/extending-locust.html: `template_args` adds the tab and its table,
and the rows are sent with the statistics that the page requests every two seconds.
"""

from __future__ import annotations

import json
import time
from typing import Any

from flask import request
from locust import events

from loadtests.harness import formats
from loadtests.harness.load_run import LoadRun
from loadtests.harness.measured_operations import OPERATIONS

KEY = "ledger"
# Seconds. The page may be open in many browsers, and each look reads the links of the key space.
REFRESH = 1.5


class Tab:
    """What the tab shows of a load run."""

    def __init__(self, load: LoadRun) -> None:
        self.load = load
        self._rows: list[dict[str, str]] = []
        self._made = 0.0

    def rows(self) -> list[dict[str, str]]:
        """Return the rows: of the current run, or the result of the last one."""
        if time.time() - self._made > REFRESH:
            self._made = time.time()  # first, because others may come while this one waits
            self._rows = self._live()
        return self._rows

    def _live(self) -> list[dict[str, str]]:
        result, outcome = self.load.result, "still running"
        if result:
            outcome = formats.sentence(result)
        elif self.load.ledger.sent:
            result = self.load.reconciled()
        else:
            problem = self.load.problem or "no requests yet: start a run"
            return [{"what": "outcome", "value": problem}]
        rows = [("strategy", result.strategy), ("outcome", outcome), *formats.rows(result)]
        if not self.load.result:
            # The ledger is read before the database, so what is lost is lost, but for visits that
            # a transaction of their own is about to record; and what is counted and not yet
            # acknowledged is only in flight.
            doubled = {one.doubled for one in OPERATIONS.values()}
            rows = [row for row in rows if row[0] not in doubled]
        for number, (case, *requests) in enumerate(result.proofs, 1):
            rows += [(f"proof {number}", case), *(("", request) for request in requests)]
        return [{"what": name, "value": value} for name, value in rows]


def add_tab(load: LoadRun) -> None:
    """Show the ledger of `load` in the web UI, when there is one."""
    tab = Tab(load)

    def add_rows(response: Any) -> Any:
        if request.path.endswith("/stats/requests") and response.is_json:
            extended = [{"key": KEY, "data": tab.rows()}]
            response.set_data(json.dumps({**response.json, "extended_stats": extended}))
        return response

    def on_init(environment: Any, **kwargs: Any) -> None:
        web_ui = environment.web_ui
        if not web_ui:
            return
        web_ui.template_args["extended_tabs"] = [{"title": "Ledger", "key": KEY}]
        web_ui.template_args["extended_tables"] = [
            {
                "key": KEY,
                "structure": [{"key": "what", "title": "Ledger"}, {"key": "value", "title": ""}],
            }
        ]
        web_ui.app.after_request(add_rows)

    hooks: Any = events
    hooks.init.add_listener(on_init)
